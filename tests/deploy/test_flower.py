"""Flower behind the seam: its messages carry ours, its nodes are our sites, its names are where."""

import ast
import importlib
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler as Handler
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

import proxfl as px
from proxfl.deploy.ops.keys import make_server_keys, make_site_keys
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.flower import envelope, private_names
from proxfl.deploy.transport.flower.app import write_app
from proxfl.deploy.transport.flower.envelope import unwrap, wrap
from proxfl.deploy.transport.flower.server import FlowerTransport
from proxfl.deploy.transport.flower.site import (
    NO_SERVER,
    UNKNOWN_SERVER,
    Server,
    attend,
)
from tests.deploy.grid import LocalGrid, failed, inside_flower, node, through_the_wire
from tests.deploy.world import PATIENCE, World, deployed, drive
from tests.test_imports import IMPORTERS

PACKAGE = Path(px.__file__).parent
QUICK = PATIENCE._replace(poll=0.01, pause=0.0, deadline=60.0)


def test_flower_still_has_the_names_it_does_not_promise():
    for name, module in (private_names.NAMES | private_names.REPLACED).items():
        assert private_names.found(name, module) is not None
    with pytest.raises(ImportError, match="Flower .* moved gone, which was in flwr.app; adapt"):
        private_names.found("gone", "flwr.app")


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
    ours = PACKAGE / "deploy" / "transport" / "flower"
    for path in PACKAGE.rglob("*.py"):
        imports, texts = of_flower(path.read_text())
        assert imports <= (PROMISED if path.parent == ours else set()), path
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
for name in ("flwr", "cryptography", "psutil", "httpx"): sys.modules[name] = None
import importlib
for name in {modules!r}: importlib.import_module(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def over_flower(world, nodes, keys=None, spoil=lambda node, message: message, patience=QUICK):
    transport = FlowerTransport(LocalGrid(nodes, spoil), world.name, world.sites, keys)
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
    stop, heard = threading.Event(), []

    def say(sentence):
        heard.append(sentence)
        stop.set()

    key = make_site_keys(tmp_path / "site", "north").private
    attend(Server(address, authority, key), tmp_path, lambda frame: frame, stop, say)
    return heard[0]


def test_a_site_tells_a_false_certificate_from_a_server_that_is_not_there(tmp_path):
    keys, false = (make_server_keys(tmp_path / name) for name in ("server", "false"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        assert said_of(false.authority, address, tmp_path) == UNKNOWN_SERVER
        server.shutdown()
    assert said_of(keys.authority, address, tmp_path) == NO_SERVER
