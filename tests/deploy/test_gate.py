"""The gate: nobody waits there for ever, takes much, or gets through who was not let in."""

import asyncio
import contextlib
import logging
import socket
import ssl
import subprocess
import sys
from base64 import b64encode

import httpx
import pytest
import uvloop
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from proxfl.deploy.ops.keyring import KeyRing, as_sent
from proxfl.deploy.ops.keys import make_server_keys, make_site_keys, private_key, renew
from proxfl.deploy.transport.flower import gate as gates
from proxfl.deploy.transport.flower import letters as store
from proxfl.deploy.transport.flower import mail as mails
from proxfl.deploy.transport.flower.door import Door, Limits, Visitor
from proxfl.deploy.transport.flower.gate import PULL, Gate, listening
from proxfl.deploy.transport.flower.letters import Letters
from proxfl.deploy.transport.flower.mail import Asker, Mail
from proxfl.deploy.transport.flower.private_names import PullMessagesRequest, get_all_nested_objects
from tests.deploy.linkstate import LinkState

SHORT = Limits(handshake=0.05, header=0.05, idle=0.05, body=0.05, slowest=1e9)
LIMITS = Limits()
FORWARDED = "/v1/fleet/push-object"
GET_HEALTH = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
PIECES = 40  # of 64 KiB: more than the kernel takes for a connection


def response(content):
    length = {"content-length": str(len(content))}
    return httpx.Response(200, headers=length, stream=httpx.ByteStream(content))


class SuperLink:
    """What gets through; it answers with what `reply` makes of a request."""

    def __init__(self):
        self.got, self.reply = [], lambda request: response(b"well")

    async def __call__(self, request):
        body = b"".join([part async for part in request.stream])
        self.got.append((request.url.path, body))
        return self.reply(request)


class There:
    """A gate on this machine, between a client of the test and a SuperLink in memory."""

    def __init__(self, folder, limits, trust=None):
        self.inner, self.trust, self.writers = SuperLink(), trust, []
        self.site = make_site_keys(folder / "site", "north")
        self.public = folder / "sites" / "north.pub"
        self.public.parent.mkdir()
        self.public.write_bytes(self.site.public.read_bytes())
        client = httpx.AsyncClient(
            base_url="http://inner", transport=httpx.MockTransport(self.inner)
        )
        self.gate = Gate(client, Mail(folder / "no.db"), KeyRing(self.public.parent), limits)
        self.listener = listening("127.0.0.1", 0)

    @contextlib.asynccontextmanager
    async def open(self):
        task = asyncio.create_task(self.gate.open(self.listener, self.trust))
        try:
            yield self
        finally:
            for each in (task, *self.gate.tasks):
                each.cancel()
            await asyncio.gather(task, *self.gate.tasks, return_exceptions=True)
            for writer in self.writers:
                writer.transport.abort()
            await asyncio.sleep(0.01)  # transports close in the turn after
            self.listener.close()

    async def connect(self, trust=None):
        where = self.listener.getsockname()
        name = {} if trust is None else {"server_hostname": "localhost"}
        reader, writer = await asyncio.open_connection(*where, ssl=trust, **name)
        self.writers.append(writer)
        return reader, writer

    def signed(self):
        """Headers by which a site is known."""
        time = "2026-01-01T00:00:00+00:00"  # which is for the SuperLink to check
        public = as_sent(self.site.public)
        signature = private_key(self.site.private).sign(time.encode(), ec.ECDSA(hashes.SHA256()))
        return {
            "flwr-public-key": b64encode(public).decode(),
            "flwr-signature": b64encode(signature).decode(),
            "flwr-timestamp": time,
        }

    def request(self, path=FORWARDED, body=b"", signed=True, **more):
        headers = {"host": "gate", "content-length": str(len(body))}
        headers |= self.signed() if signed else {}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def with_gate(test, folder, limits=LIMITS, trust=None):
    async def main():
        async with There(folder, limits, trust).open() as there:
            return await test(there)

    return uvloop.run(main())


async def exchange(there, data):
    """The status that comes of some bytes, and whether the connection is kept."""
    reader, writer = await there.connect()
    writer.write(data)
    status, kept = await answer(reader)
    writer.close()
    return status, kept


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    length = [int(line.split(":")[1]) for line in lines if line.startswith("content-length")]
    await reader.readexactly(*length)
    return int(head.split()[1]), "connection: close" not in lines


def test_a_site_gets_through_and_nobody_else(tmp_path):
    async def test(there):
        assert await exchange(there, there.request(body=b"abc")) == (200, True)
        assert there.inner.got == [(FORWARDED, b"abc")]
        other = There(tmp_path / "other", LIMITS)
        other.listener.close()
        for wrong in (
            there.request(signed=False),
            other.request(),
            there.request(flwr_signature="AAAA", signed=False),
            there.request().replace(b"flwr-timestamp: 2", b"flwr-timestamp: 3"),
        ):
            assert await exchange(there, wrong) == (401, False)
        for path in ("/v1/control/start-run", "/v1/fleet/register-node", "/docs", "/"):
            assert await exchange(there, there.request(path)) == (404, False)
        assert len(there.inner.got) == 1

    (tmp_path / "other").mkdir()
    with_gate(test, tmp_path)


@pytest.mark.parametrize("begun", [b"", b"POST /v1/fl", b"POST / HTTP/1.1\r\nhost: a\r\n"])
def test_who_sends_nothing_or_half_a_header_is_sent_away(begun, tmp_path):
    async def test(there):
        reader, writer = await there.connect()
        writer.write(begun)
        assert await reader.read() == b""  # the end
        assert not there.gate.door.unknown

    with_gate(test, tmp_path, SHORT)


def test_half_a_handshake_is_ended(tmp_path):
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(make_server_keys(tmp_path / "keys").pair)

    async def test(there):
        for begun in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await there.connect()
            writer.write(begun)
            with contextlib.suppress(ConnectionError):
                await reader.read()
        while there.gate.tasks:  # each ends by its limit
            await asyncio.sleep(0.01)
        assert not there.gate.door.unknown

    with_gate(test, tmp_path, SHORT, trust)


def test_a_header_is_small_or_refused(tmp_path):
    async def test(there):
        reader, writer = await there.connect()
        writer.write(there.request(x="a" * 3 * LIMITS.largest_header))
        with contextlib.suppress(ConnectionError):  # it may be gone before it was heard out
            assert b" 200 " not in await reader.read()
        assert there.inner.got == []

    with_gate(test, tmp_path)


def test_a_body_of_a_stranger_or_over_the_limit_is_refused_before_it_is_sent(tmp_path):
    async def test(there):
        size = str(LIMITS.largest)
        assert await exchange(there, there.request(content_length=size, signed=False)) == (
            401,
            False,
        )
        over = str(LIMITS.largest + 1)
        assert await exchange(there, there.request(content_length=over)) == (413, False)
        assert there.inner.got == []

    with_gate(test, tmp_path)


@pytest.mark.parametrize(
    "odd",
    [
        {"content_length": "-1"},
        {"content_length": "+1"},
        {"content_length": "1, 2"},
        {"content_length": "0x1"},
        {"content_length": "9" * 30},
        {"transfer_encoding": "chunked"},
        {"transfer_encoding": "gzip, chunked"},
    ],
)
def test_odd_lengths_reach_nobody(odd, tmp_path):
    async def test(there):
        status, kept = await exchange(there, there.request(**odd) + b"0\r\n\r\n")
        assert status in (400, 413, 501) and not kept
        doubled = there.request().replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n")
        assert (await exchange(there, doubled))[0] == 400
        assert there.inner.got == []

    with_gate(test, tmp_path)


def test_a_body_goes_through_in_pieces_and_one_that_breaks_off_says_nothing(tmp_path, caplog):
    async def test(there):
        reader, writer = await there.connect()
        writer.write(there.request(content_length=str(PIECES * 2**16)))
        for _ in range(PIECES // 2):
            writer.write(bytes(2**16))
            await writer.drain()
        writer.close()
        while there.gate.tasks:
            await asyncio.sleep(0.01)
        assert there.inner.got == []  # no half of it arrived
        whole = bytes(PIECES * 2**16)
        assert await exchange(there, there.request(body=whole)) == (200, True)
        assert there.inner.got == [(FORWARDED, whole)]

    with caplog.at_level(logging.INFO):
        with_gate(test, tmp_path)
    assert [r for r in caplog.records if r.name.startswith(("proxfl", "asyncio"))] == []


def test_a_body_that_stops_coming_is_not_waited_for(tmp_path):
    async def test(there):
        reader, writer = await there.connect()
        writer.write(there.request(content_length="100") + b"half")
        assert b" 200 " not in await reader.read()
        assert there.inner.got == []

    with_gate(test, tmp_path, SHORT)


@pytest.mark.parametrize("how", ["removed", "rotated"])
def test_a_key_that_is_let_in_no_more_ends_its_connections_and_another_is_taken(
    how, tmp_path, monkeypatch
):
    """By the gate's own looks at the folder, which are so far apart that 5 s are kept."""
    assert gates.TICK <= 5 / 2
    monkeypatch.setattr(gates, "TICK", 0.01)

    async def test(there):
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        keep_up = asyncio.create_task(there.gate.keep_up(there.site.private, trust))
        idle, writer = await there.connect()
        writer.write(there.request())
        assert await answer(idle) == (200, True)
        waiting, _ = await held(there)
        old, there.site = there.request(), make_site_keys(tmp_path / "new", "north")
        new = there.site.public.read_bytes()
        if how == "removed":
            there.public.unlink()
        else:
            there.public.write_bytes(new)
        assert await idle.read() == b"" and await waiting.read() == b""
        assert await exchange(there, old) == (401, False)
        there.public.write_bytes(new)
        while await exchange(there, there.request()) != (200, True):
            pass
        keep_up.cancel()

    with_gate(test, tmp_path)


def question(there, node=7):
    return there.request(PULL, PullMessagesRequest(node={"node_id": node}).SerializeToString())


def asker(there, node=7):
    return Asker(as_sent(there.site.public), node)


async def held(there):
    reader, writer = await there.connect()
    waiting, who = there.gate.mail.waiting, asker(there)
    before = waiting.get(who)
    writer.write(question(there))
    while waiting.get(who) in (None, before):
        await asyncio.sleep(0)
    return reader, writer


def test_a_question_is_held_and_costs_the_superlink_one_request(tmp_path):
    async def test(there):
        reader, _ = await held(there)
        assert there.inner.got == []
        there.gate.mail.tell(asker(there, 8), mails.COME)
        there.gate.mail.tell(asker(there)._replace(key=b"another"), mails.COME)
        there.gate.mail.tell(asker(there), mails.COME)
        assert await answer(reader) == (200, True)
        assert [path for path, _ in there.inner.got] == [PULL]

    with_gate(test, tmp_path)


def test_without_a_message_a_question_is_answered_when_its_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "HOLD", 0.01)
    monkeypatch.setattr(gates, "ASKED", 1e9)

    async def test(there):
        there.inner.reply = lambda request: response(b"")
        assert await exchange(there, question(there)) == (200, True)
        assert [path for path, _ in there.inner.got] == [PULL]

    with_gate(test, tmp_path)


def test_of_many_questions_without_a_message_the_superlink_hears_few(tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "ASKED", 1e-9)  # in a second
    monkeypatch.setattr(gates, "HOLD", 0.01)

    async def test(there):
        assert await exchange(there, question(there)) == (200, True)
        assert there.inner.got == []

    with_gate(test, tmp_path)


def test_a_newer_question_of_a_site_ends_the_older_and_one_who_left_gets_no_message(tmp_path):
    async def test(there):
        first, _ = await held(there)
        second, writer = await held(there)
        assert await answer(first) == (200, True) and there.inner.got == []
        writer.close()
        await writer.wait_closed()
        while not there.gate.tasks:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)  # for the gate to hear of it
        there.gate.mail.tell(asker(there), mails.COME)
        while there.gate.mail.waiting:
            await asyncio.sleep(0)
        assert there.inner.got == []

    with_gate(test, tmp_path)


def test_a_superlink_that_is_away_is_said_so(tmp_path):
    def away(request):
        raise httpx.ConnectError("gone")

    async def test(there):
        there.inner.reply = away
        assert await exchange(there, there.request()) == (503, False)
        assert await exchange(there, GET_HEALTH) == (503, False)
        there.inner.reply = lambda request: response(b"")
        assert await exchange(there, GET_HEALTH) == (200, False)

    with_gate(test, tmp_path)


def test_however_many_strangers_ask_how_it_is_the_superlink_hears_one(tmp_path):
    class Talk:
        async def say(self, status, close):
            said.append(status)

    async def test(there):
        await asyncio.gather(*(there.gate.health(Talk()) for _ in range(20)))
        assert said == 20 * [200] and len(there.inner.got) == 1

    said = []
    with_gate(test, tmp_path)


def serial(writer):
    return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]


def test_a_renewed_certificate_is_taken_by_a_gate_that_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "TICK", 0.01)
    made = make_server_keys(tmp_path / "keys")
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(made.pair)
    client = ssl.create_default_context(cafile=str(made.authority))

    async def test(there):
        keep_up = asyncio.create_task(there.gate.keep_up(made.pair, trust))
        await asyncio.sleep(0)
        _, writer = await there.connect(client)
        first = serial(writer)
        renew(tmp_path / "keys", [], tmp_path / "keys" / "ca.key")
        while serial(writer) == first:
            writer.close()
            _, writer = await there.connect(client)
        keep_up.cancel()

    with_gate(test, tmp_path, trust=trust)


def visitors(door, address, number, since=0.0):
    gone, made = [], []
    for _ in range(number):
        visitor = Visitor(address, lambda: None, since)
        visitor.dismiss = lambda visitor=visitor: gone.append(visitor)
        door.enters(visitor)
        made.append(visitor)
    return made, gone


def test_who_comes_from_elsewhere_finds_room_at_a_crowded_door():
    limits = Limits(unknown=10, per_address=6)
    door = Door(limits, 2)
    crowd, gone = visitors(door, "10.0.0.1", 6)
    visitors(door, "10.0.0.2", 4)
    assert door.makes_room("10.0.0.3") and gone == crowd[:1]
    assert sum(map(len, door.unknown.values())) < limits.unknown


def test_an_address_has_its_share_and_the_newest_of_it_do_not_push_one_another_out():
    door = Door(Limits(per_address=3, grace=60.0), 2)
    crowd, gone = visitors(door, "10.0.0.1", 3, since=1e12)  # they have only just come
    assert not door.makes_room("10.0.0.1") and gone == []
    for visitor in crowd:
        visitor.since = -1e12
    assert door.makes_room("10.0.0.1") and gone == crowd[:1]


def test_those_who_are_known_take_no_room_from_others_and_a_site_has_so_many():
    door = Door(Limits(per_address=2), 2)
    made, gone = visitors(door, "10.0.0.1", 2)
    for visitor in made:
        door.is_known(visitor, b"north")
    assert door.makes_room("10.0.0.1") and not gone and not door.unknown
    more, _ = visitors(door, "10.0.0.1", 1)
    door.is_known(more[0], b"north")
    assert gone == made[:1] and len(door.known[b"north"]) == 2
    door.keep_only({b"south"})
    assert gone == made and not door.known


def test_the_look_finds_what_flower_stores_for_a_node_until_it_is_fetched(tmp_path):
    link = LinkState(tmp_path / "superlink.db", [b"a", b"b"])
    link.activate()
    letters, (first, second) = Letters(tmp_path / "superlink.db"), link.nodes
    assert letters.nodes() == set() and letters.changed() and not letters.changed()
    link.post(second, b"frame")
    assert letters.nodes() == {second} and letters.changed()
    announced = link.announce(first, b"frame")
    assert letters.nodes() == {second}
    link.put(*announced)
    assert letters.nodes() == {first, second}
    assert link.state.get_message_ins(second, 1)
    assert letters.nodes() == {first}


def test_a_reply_is_seen_once_all_of_it_is_there_and_then_read_from_beside(tmp_path):
    link = LinkState(tmp_path / "superlink.db", [b"a"])
    link.activate()
    letters, (node,) = Letters(tmp_path / "superlink.db"), link.nodes
    link.post(node, b"question")
    name, *announced = link.answer(node, b"reply")
    reply = announced[0].object_id
    assert letters.replies([name, "another"]) == {name: ""}
    link.put(*announced)
    assert letters.replies([name, "another"]) == {name: reply}
    parts = {n: p.deflate() for n, p in get_all_nested_objects(announced[0]).items()}
    assert letters.parts(reply) == parts and letters.parts("another") == {}
    assert letters.replies([]) == {}


def test_a_database_that_is_not_there_yet_is_looked_for_again(tmp_path):
    letters = Letters(tmp_path / "superlink.db")
    assert letters.nodes() == set() and letters.changed() and letters.changed()
    link = LinkState(tmp_path / "superlink.db", [b"a"])
    link.activate()
    link.post(link.nodes[0], b"frame")
    assert letters.nodes() == {link.nodes[0]}


def test_the_gate_as_a_process_says_what_keeps_it_from_starting(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", gates.__name__, "--host", "127.0.0.1", "--port", port]
        command += ["--superlink", "127.0.0.1:1", "--database", str(tmp_path / "a.db")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode and "in use" in done.stderr and "Traceback" not in done.stderr


def test_looks_are_many_in_a_round_and_few_where_nothing_goes_on(tmp_path, monkeypatch):
    """Nothing that comes waits longer than a fortieth of the time for which nothing had come."""
    now, letters = [100.0], Letters(tmp_path / "superlink.db")
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    assert letters.pause == store.SELDOM
    letters.stir()
    for lull in (0.0, 0.1, 0.4, 2.0, 9.0, 10.0, 3600.0):
        now[0] = 100.0 + lull
        assert store.SOON <= letters.pause <= max(store.SOON, lull / 40) * (1 + 1e-9)
    assert letters.pause == store.SELDOM
