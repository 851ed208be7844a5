"""Flower behind the seam: its messages carry ours, its nodes are our sites, its names are where."""

import ast
import contextlib
import datetime
import importlib
import re
import sqlite3
import ssl
import subprocess
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler as Handler
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.superlink.main import create_app
from flwr.supernode import node_auth_http_interceptor

import proxfl as px
from proxfl.deploy.ops import certificates
from proxfl.deploy.ops.keys import (
    make_server_keys,
    make_site_keys,
    private_key,
    renew,
    write_pair,
)
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.flower import envelope, private_names, site
from proxfl.deploy.transport.flower.app import write_app
from proxfl.deploy.transport.flower.envelope import unwrap, wrap
from proxfl.deploy.transport.flower.letters import Letters
from proxfl.deploy.transport.flower.nodes import online
from proxfl.deploy.transport.flower.process import spoken
from proxfl.deploy.transport.flower.server import FlowerTransport
from proxfl.deploy.transport.flower.site import (
    ENDED,
    NO_SERVER,
    NOT_LET_IN,
    OTHER_NAME,
    UNKNOWN_SERVER,
    Server,
    Stop,
    attend,
)
from tests.deploy.grid import LocalGrid, failed, inside_flower, node, through_the_wire
from tests.deploy.linkstate import LinkState
from tests.deploy.world import PATIENCE, World, deployed, drive
from tests.storage.faulty import FULL, disk
from tests.test_imports import IMPORTERS

PACKAGE = Path(px.__file__).parent
QUICK = PATIENCE._replace(poll=0.01, pause=0.0, deadline=60.0)


def test_flower_still_has_the_names_it_does_not_promise(tmp_path):
    for name, module in (private_names.NAMES | private_names.REPLACED).items():
        assert private_names.found(name, module) is not None
    with pytest.raises(ImportError, match="Flower .* moved gone, which was in flwr.app; adapt"):
        private_names.found("gone", "flwr.app")
    LinkState(tmp_path / "superlink.db", [])  # as Flower makes it
    with contextlib.closing(sqlite3.connect(tmp_path / "superlink.db")) as base:
        for query in private_names.QUERIES:
            assert private_names.look(base, query, "[]") == []


@pytest.mark.parametrize(
    ("table", "column", "ask"),
    [
        ("node", "online_until", online),
        ("message_ins", "delivered_at", lambda path: Letters(path).nodes()),
        ("message_res", "reply_to_message_id", lambda path: Letters(path).replies(["a"])),
        ("objects", "content", lambda path: Letters(path).parts("a")),
    ],
)
def test_a_column_that_flower_moved_is_not_taken_for_an_empty_table(table, column, ask, tmp_path):
    LinkState(tmp_path / "superlink.db", [])
    with contextlib.closing(sqlite3.connect(tmp_path / "superlink.db")) as base:
        base.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO moved")
    sentence = f"Flower .* moved the column {column}, which was in its database; adapt"
    with pytest.raises(ImportError, match=sentence):
        ask(tmp_path / "superlink.db")


PROMISED = {"flwr.app", "flwr.serverapp", "flwr.clientapp"}


def of_flower(source):
    """Flower's modules that a source imports, and those that it names in a text or a call."""
    imports, texts = set(), set()
    for part in ast.walk(ast.parse(source)):
        if isinstance(part, ast.Import):
            imports |= {alias.name for alias in part.names}
        elif isinstance(part, ast.ImportFrom):
            imports |= {part.module or ""}
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            texts |= {part.value} if part.value.startswith("flwr.") else set()
        elif isinstance(part, ast.Call) and ast.unparse(part.func).endswith(IMPORTERS):
            texts |= {"flwr"} if [ast.unparse(a) for a in part.args[:1]] == ["'flwr'"] else set()
    return {name for name in imports if name.split(".")[0] == "flwr"}, texts


def test_names_of_flower_are_in_one_folder_and_private_ones_in_one_module():
    """What Flower promises is also used by what is for apps of other people."""
    ours, apps = PACKAGE / "deploy" / "transport" / "flower", PACKAGE / "flower"
    for path in PACKAGE.rglob("*.py"):
        imports, texts = of_flower(path.read_text())
        assert imports <= (PROMISED if path.parent in (ours, apps) else set()), path
        assert not texts or path == ours / "private_names.py", (path, texts)


@pytest.mark.parametrize(
    "source",
    [
        "import flwr",
        "import flwr.proto.node_pb2",
        "import flwr.app as a",
        "from flwr import app",
        "def f():\n    from flwr.proto import node_pb2",
        "import importlib\nimportlib.import_module('flwr.proto.node_pb2')",
        "from importlib import import_module\nimport_module('flwr')",
        "__import__('flwr')",
        "name = 'app'\n__import__(f'flwr.{name}')",
        "command = ['-m', 'flwr.supercore']",
    ],
)
def test_the_guard_of_flowers_names_reads_every_form(source):
    assert any(of_flower(source)), source


def test_what_is_above_the_seam_needs_no_flower():
    above = ["protocol", "server", "site", "transport"]
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for part in above
        for path in (PACKAGE / "deploy" / part).glob("*.py")
    ]
    code = f"""
import sys
for name in ("flwr", "psutil", "httpx"): sys.modules[name] = None
import importlib
for name in {modules!r}: importlib.import_module(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def over_flower(world, nodes, keys=None, spoil=lambda node, message: message, patience=QUICK):
    held = None if keys is None else lambda: keys
    transport = FlowerTransport(LocalGrid(nodes, spoil), world.name, world.sites, held)
    return world.federation(transport, patience=patience)


@pytest.mark.parametrize("by_key", [True, False])
def test_a_run_through_flowers_messages_is_the_run_without(by_key, tmp_path):
    world = World(tmp_path / "a", px.Decoupled(0.05, 1.5, 4))
    wanted, _ = deployed(World(tmp_path / "b", world.algorithm), 3)
    keys = {site: site.encode() for site in world.sites} if by_key else None
    nodes = [node(10 + i, world.worker(i), s.encode()) for i, s in enumerate(world.sites)]
    with inside_flower():
        federation = over_flower(world, nodes, keys)
        found = drive(federation, world.algorithm, world.problem, 3)
    np.testing.assert_array_equal(found, wanted)
    total = federation.ledger.total("up", kind="round")
    assert total.wire > total.frame > total.payload and not federation.ledger.faults


def test_a_node_that_is_no_site_of_the_experiment_is_not_let_in(tmp_path):
    world = World(tmp_path / "ours", px.Decoupled(0.05))
    other = World(tmp_path / "theirs", px.Decoupled(0.05), name="another")
    nodes = [node(100, other.worker(0)), *(node(10 + i, world.worker(i)) for i in range(5))]
    with inside_flower():
        federation = over_flower(world, nodes)
        drive(federation, world.algorithm, world.problem, 2)
    (fault,) = federation.ledger.faults
    assert fault.site == "node 100" and "takes part in another, not in another" in fault.sentence


def test_with_keys_a_node_is_who_its_key_says_whatever_it_claims(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05))
    keys = {site: site.encode() for site in world.sites}
    nodes = [node(10 + i, world.worker(i), keys[s]) for i, s in enumerate(world.sites)]
    nodes[1].key = b"stolen by nobody"
    with inside_flower(), pytest.raises(TooFewSites, match="site-1 .not connected."):
        soon = QUICK._replace(deadline=1.0)
        drive(over_flower(world, nodes, keys, patience=soon), world.algorithm, world.problem, 1)


def test_what_flower_reports_or_cannot_read_is_one_more_fault(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05))
    nodes = [node(10 + i, world.worker(i), s.encode()) for i, s in enumerate(world.sites)]
    left = [failed, lambda message: (_ for _ in ()).throw(ValueError("bad object"))]
    spoil = lambda node, message: left.pop()(message) if left and node.number == 11 else message
    with inside_flower():
        federation = over_flower(world, nodes, {s: s.encode() for s in world.sites}, spoil)
        drive(federation, world.algorithm, world.problem, 2)
    assert [fault.sentence for fault in federation.ledger.faults] == [
        "Flower cannot read its reply (ValueError).",
        "Flower reports error 2: the site's process ended",
    ]


def test_a_frame_of_any_size_arrives_and_what_is_not_ours_is_refused(monkeypatch):
    monkeypatch.setattr(envelope, "PART", 10)
    with inside_flower():
        for size in (0, 1, 10, 11, 1234):
            frame = np.random.default_rng(size).bytes(size)
            assert unwrap(through_the_wire(Message(wrap(frame), 7, "query"))) == frame
        for odd in (
            RecordDict({"more": ConfigRecord({"proxfl": "text"})}),
            RecordDict({"more": ConfigRecord({"proxfl": b"x", "y": b"z"})}),
        ):
            with pytest.raises(BadMessage, match="something else than a ProxFL message"):
                unwrap(Message(odd, 7, "query"))


@pytest.mark.parametrize("sent", [b"nonsense", b"", RecordDict({}).deflate()])
def test_a_message_that_flower_cannot_read_is_confirmed_and_left(sent):
    """Else it would come again, and end the site's process each time."""
    confirmed = []
    with inside_flower():
        message = Message(wrap(b"frame"), 7, "query")
        nobody = lambda *args: pytest.fail("It was answered.")
        pull = lambda run, part: sent
        confirm = lambda run, name: confirmed.append(name)
        connection = site.Connection(7, nobody, nobody, None, None, pull, nobody, confirm)
        tree = private_names.get_object_tree(message)
        site.reply_to(connection, message, tree, lambda frame: frame)
    assert confirmed == [tree.object_id]


def test_a_full_disk_is_said_by_a_site_and_does_not_end_it(tmp_path, monkeypatch):
    opened = contextlib.nullcontext((7, *7 * [None]))
    monkeypatch.setattr(site, "http_request_response", lambda *args, **options: opened)
    with disk(tmp_path, 1, FULL):
        spoken(tmp_path, {})("It is well.")
        stop, heard = Stop(), []
        say = lambda sentence: (heard.append(sentence), stop.set())
        attend(Server("127.0.0.1:9", None, None), tmp_path, lambda frame: frame, stop, say)
    assert len(heard) == 1 and "the disk is full; free some space" in heard[0]


def test_an_app_names_components_that_are_there(tmp_path):
    import tomllib

    write_app(tmp_path, "sparse", {"rounds": 3, "tol": 1e-6, "quick": True, "out": "a b"})
    app = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    for component in app["components"].values():
        module, name = component.split(":")
        assert hasattr(importlib.import_module(module), name)
    assert app["config"] == {"rounds": 3, "tol": 1e-6, "quick": True, "out": "a b"}


def said_of(authority, address, tmp_path):
    """What a site that trusts an authority says of the server at an address."""
    stop, heard = Stop(), []

    def say(sentence):
        heard.append(sentence)
        stop.set()

    key = make_site_keys(tmp_path / "site", "north").private
    attend(Server(address, authority, key), tmp_path, lambda frame: frame, stop, say)
    return heard[0]


@contextlib.contextmanager
def serving(pair):
    """Somebody who listens with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_site_tells_a_false_certificate_from_a_server_that_is_not_there(tmp_path):
    keys, false = (make_server_keys(tmp_path / name) for name in ("server", "false"))
    with serving(keys.pair) as address:
        assert said_of(false.authority, address, tmp_path) == UNKNOWN_SERVER
    assert said_of(keys.authority, address, tmp_path) == NO_SERVER


def test_a_site_tells_a_certificate_for_another_name(tmp_path):
    keys = make_server_keys(tmp_path / "server")
    names = [certificates.name_of("other.example")]
    write_pair(keys.pair, private_key(tmp_path / "server" / "ca.key"), names)
    with serving(keys.pair) as address:
        assert said_of(keys.authority, address, tmp_path) == OTHER_NAME


def test_a_site_tells_a_certificate_that_has_ended(tmp_path, monkeypatch):
    keys, real = make_server_keys(tmp_path / "server"), certificates.now
    past = datetime.timedelta(days=certificates.SERVER_DAYS + 1)
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "now", lambda: real() - past)
        renew(tmp_path / "server", [], tmp_path / "server" / "ca.key")
    with serving(keys.pair) as address:
        assert said_of(keys.authority, address, tmp_path) == ENDED


@contextlib.contextmanager
def superlink():
    """Flower's own server, in this process and in the clear, where nobody is registered."""
    with warnings.catch_warnings(action="ignore"):  # which are Flower's own
        app = create_app()
    server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(("ahead", "way"), [(60, "ahead of"), (-400, "behind")])
def test_a_clock_that_flower_refuses_is_said_by_the_site(ahead, way, tmp_path, monkeypatch):
    """Flower takes a request signed up to 5 s in the future or 305 s in the past."""
    shifted = lambda: certificates.now() + datetime.timedelta(seconds=ahead)
    with superlink() as address:
        assert said_of(None, address, tmp_path) == NOT_LET_IN.format(key="north.pub")
        monkeypatch.setattr(node_auth_http_interceptor, "now", shifted)
        monkeypatch.setattr(site, "now", shifted)
        found = said_of(None, address, tmp_path)
    number, rest = re.fullmatch(r"The clock of this machine is (\d+) s (.*)", found).groups()
    assert abs(int(number) - abs(ahead)) < 30 and rest.startswith(f"{way} the server's; set it")
