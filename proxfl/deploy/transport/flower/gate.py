"""The door between the sites and the SuperLink.

A SuperLink serves everyone at one port: the sites, its own processes, and the operator, who
registers sites and starts runs, whose code Flower then runs everywhere. Only the sites must prove
who they are. So the SuperLink listens on its own machine alone, and the sites come in here, a
reverse proxy: the calls that sites make go through, signed by a key that is let in, each to be
checked by the SuperLink again, and nothing else does.

A site asks for messages, and would have to sleep between two questions. So the gate holds such a
question back until there is a message: a long poll.
"""

import argparse
import asyncio
import contextlib
import logging
import random
import resource
import socket
import ssl
from pathlib import Path

import h11
import httpx
import uvloop

from proxfl.deploy.ops.keyring import KeyRing
from proxfl.deploy.transport.flower.conversation import Conversation, length_of, passed_on
from proxfl.deploy.transport.flower.door import Door, Limits, Visitor
from proxfl.deploy.transport.flower.mail import OVER, REPLACED, Asker, Mail
from proxfl.deploy.transport.flower.private_names import PullMessagesRequest
from proxfl.deploy.transport.flower.signatures import Signatures

log = logging.getLogger("proxfl.deploy")

FOR_SITES = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "push-messages",
    "pull-messages",
    "get-run",
    "get-fab",
    "push-object",
    "pull-object",
    "confirm-message-received",
)
WITHOUT_KEYS = ("register-node", "unregister-node")  # sites nobody registered do it themselves
PULL = "/v1/fleet/pull-messages"
SMALL = 2**14  # bytes: a question for messages, and what is read of a body that is refused
SECONDS = 60.0  # for the SuperLink to answer
HOLD = 20.0  # seconds for which a question is held; a site waits for 30 before it asks again
ASKED = 8.0  # questions in a second, of all sites, that the SuperLink gets when nothing goes on
REST = 0.5  # until a message that is announced and cannot be had is asked for again
TICK = 1.0  # between two looks at keys and certificate
BACKLOG = 1024


class Gate:
    """Lets those in whose keys are in a ring, or everyone if that is None."""

    def __init__(self, client: httpx.AsyncClient, mail: Mail, ring: KeyRing | None, limits: Limits):
        self.client, self.mail, self.limits = client, mail, limits
        self.signatures = Signatures(ring)
        self.door = Door(limits, limits.without_keys if ring is None else limits.per_site)
        names = FOR_SITES if ring is not None else FOR_SITES + WITHOUT_KEYS
        self.paths = {f"/v1/fleet/{name}" for name in names}
        self.tasks: set[asyncio.Task] = set()
        self.looking: asyncio.Task[int] | None = None

    async def open(self, listener: socket.socket, trust: ssl.SSLContext | None) -> None:
        """Take connections from a socket that listens, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, (address, *_) = await loop.sock_accept(listener)
            except OSError as error:  # no more files: those who are in must leave first
                log.warning("No connection can be taken: %s", error)
                await asyncio.sleep(TICK)
                continue
            if not self.door.makes_room(address):
                taken.close()
                continue
            visitor = Visitor(address, lambda: None)
            task = loop.create_task(self.welcome(taken, visitor, trust))
            visitor.dismiss = task.cancel
            self.door.enters(visitor)
            self.tasks.add(task)
            task.add_done_callback(
                lambda task, taken=taken: (self.tasks.discard(task), taken.close())
            )
            await asyncio.sleep(0)  # the others' turn, however many stand outside

    async def welcome(
        self, taken: socket.socket, visitor: Visitor, trust: ssl.SSLContext | None
    ) -> None:
        """One connection from its first moment to its last."""
        loop, transport = asyncio.get_running_loop(), None
        reader = asyncio.StreamReader(SMALL * 4)
        protocol = asyncio.StreamReaderProtocol(reader)
        limits = {"ssl_handshake_timeout": self.limits.handshake}
        limits |= {"ssl_shutdown_timeout": self.limits.farewell}
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, taken, ssl=trust, **(limits if trust else {})
            )
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            await self.attend(visitor, Conversation(reader, writer, self.limits))
            writer.close()
            await writer.wait_closed()
        except (OSError, TimeoutError, h11.ProtocolError, httpx.HTTPError) as error:
            log.debug("A connection from %s ended: %r", visitor.address, error)
        finally:
            self.door.leaves(visitor)
            if transport is not None:
                transport.abort()

    async def attend(self, visitor: Visitor, talk: Conversation) -> None:
        """Answer the requests of a connection."""
        while True:
            known = visitor.key is not None
            try:
                request = await talk.request(self.limits.idle if known else self.limits.header)
            except h11.RemoteProtocolError as error:
                await talk.say(
                    error.error_status_hint, "That is not HTTP as we know it.", close=True
                )
                return
            if request is None:
                return
            path = request.target.decode()
            if path == "/health":
                await self.health(talk)
                return
            if path not in self.paths or request.method != b"POST":
                await self.refuse(talk, request, 404, "There is nothing here for sites.")
                return
            key = self.signatures.signer(dict(request.headers))
            if key is None:
                await self.refuse(talk, request, 401, "No site that is let in has signed this.")
                return
            self.door.is_known(visitor, key)
            length = length_of(request)
            if length is None or length > (SMALL if path == PULL else self.limits.largest):
                await talk.say(413, "The request is too large, or hides its size.", close=True)
                return
            if path == PULL:
                await self.hold(talk, request, length, key)
            else:
                await self.forward(talk, request, length)

    async def health(self, talk: Conversation) -> None:
        """Strangers may ask this; however many do, the SuperLink hears one of them at a time."""
        if self.looking is None or self.looking.done():
            self.looking = asyncio.create_task(self.status())
        await talk.say(await asyncio.shield(self.looking), close=True)

    async def status(self) -> int:
        try:
            return (await self.client.get("/health")).status_code
        except httpx.HTTPError:
            return 503

    async def refuse(self, talk: Conversation, request: h11.Request, status: int, why: str) -> None:
        """Say no; a small body is taken first, since who still sends may not hear it."""
        length = length_of(request)
        if length is not None and length <= SMALL:
            async with asyncio.timeout(self.limits.header):
                async for _ in talk.body(length):
                    pass
        await talk.say(status, why, close=True)

    async def forward(self, talk: Conversation, request: h11.Request, length: int) -> None:
        """Pass a request on and the answer back, piece by piece."""
        passed = {"headers": passed_on(request), "content": talk.body(length)}
        async with contextlib.AsyncExitStack() as stack:
            try:
                answer = await stack.enter_async_context(
                    self.client.stream("POST", request.target.decode(), **passed)
                )
            except httpx.TransportError:
                await talk.say(503, "The SuperLink does not answer.", close=True)
                return
            await talk.answer(answer.status_code, passed_on(answer), answer.aiter_raw())

    async def hold(self, talk: Conversation, request: h11.Request, length: int, key: bytes) -> None:
        """The same for a question for messages, which waits until there is one.

        Where its time is over there is none, and of many such questions the SuperLink is asked
        only some, by which a site that it knows no more hears of that.
        """
        body = b"".join([piece async for piece in talk.body(length)])
        try:
            asker = Asker(key, PullMessagesRequest.FromString(body).node.node_id)
        except Exception:  # whatever protobuf raises: the sender made it
            await talk.say(400, "That is no question for messages.", close=True)
            return
        loop, waiting = asyncio.get_running_loop(), len(self.mail.waiting) + 1
        until = loop.time() + HOLD * random.uniform(0.7, 1.0)  # they do not end all at once
        passed = {"headers": passed_on(request), "content": body}
        while True:
            became = await self.mail.wait(asker, until - loop.time())
            enough = became == OVER and random.random() > ASKED * HOLD / waiting
            if became == REPLACED or enough or talk.over:  # or it would take a message to nobody
                await talk.say(200)
                return
            try:
                answer = await self.client.post(PULL, **passed)
            except httpx.TransportError:
                await talk.say(503, "The SuperLink does not answer.", close=True)
                return
            over = became == OVER or loop.time() >= until  # timers may strike a moment early
            if answer.content or not answer.is_success or over:
                await talk.answer(answer.status_code, passed_on(answer), [answer.content])
                return
            await asyncio.sleep(REST)

    def look_at_keys(self) -> None:
        """Take the keys that are let in now, and end the connections of others."""
        self.signatures.look()
        self.door.keep_only(self.signatures.let_in)

    async def keep_up(self, pair: Path, trust: ssl.SSLContext) -> None:
        """Follow the folder of keys and the server's certificate, as they change."""
        seen = pair.stat().st_mtime_ns
        while True:
            await asyncio.sleep(TICK)
            self.look_at_keys()
            with contextlib.suppress(OSError):  # it will be there the next time
                if pair.stat().st_mtime_ns != seen:
                    trust.load_cert_chain(pair)
                    seen = pair.stat().st_mtime_ns
                    log.warning("The server's certificate was renewed.")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, also where one has just closed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    made.setblocking(False)
    return made


async def run(given: argparse.Namespace, limits: Limits) -> None:
    trust, inside = None, True
    if given.pair is not None:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.options |= ssl.OP_NO_RENEGOTIATION
        trust.load_cert_chain(given.pair)
        inside = ssl.create_default_context(cafile=str(given.authority))
    say = lambda loop, told: log.warning("%s %r", told["message"], told.get("exception"))
    asyncio.get_running_loop().set_exception_handler(say)  # in a line, not as a traceback
    address = f"{'http' if trust is None else 'https'}://{given.superlink}"
    plain = {"accept-encoding": "identity"}
    options = {"verify": inside, "timeout": SECONDS, "trust_env": False, "headers": plain}
    listener = listening(given.host, given.port)
    async with httpx.AsyncClient(base_url=address, **options) as client:
        ring = None if given.sites is None else KeyRing(given.sites)
        mail = Mail(given.database)
        gate = Gate(client, mail, ring, limits)
        async with asyncio.TaskGroup() as group:
            group.create_task(mail.watch())
            if trust is not None and given.pair is not None:
                group.create_task(gate.keep_up(given.pair, trust))
            group.create_task(gate.open(listener, trust))


def main() -> None:
    parser = argparse.ArgumentParser(description="Let sites, and only sites, reach a SuperLink.")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--superlink", required=True, help="host:port on this machine")
    parser.add_argument("--database", required=True, type=Path, help="the SuperLink's")
    parser.add_argument("--authority", type=Path, help="that vouches for the SuperLink")
    parser.add_argument("--pair", type=Path, help="the certificate that sites know, and its key")
    parser.add_argument("--sites", type=Path, help="the folder of the keys that are let in")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a file
    try:
        uvloop.run(run(given, Limits()))
    except OSError as error:
        raise SystemExit(f"The gate cannot open at {given.host}:{given.port}: {error}") from None


if __name__ == "__main__":
    main()
