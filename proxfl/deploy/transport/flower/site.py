"""The site's side of Flower: one loop around its connection, in the process that has the data.

Flower's own SuperNode starts a process for every message and runs code that the server sends. This
loop does neither: the app of a run stays unopened, and every message goes to `answer`. A question
for messages is held back by the gate until there is one, so the loop waits inside it.
"""

import contextlib
import email.utils
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from flwr.app import Message, RecordDict

from proxfl.deploy.ops.certificates import now
from proxfl.deploy.ops.keys import private_key
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.transport.flower.envelope import NAME, unwrap, wrap
from proxfl.deploy.transport.flower.private_names import (
    DeactivateNodeRequest,
    FleetHttpClient,
    NodeAuthHttpInterceptor,
    RunNotRunningException,
    RuntimeVersionHttpInterceptor,
    get_all_nested_objects,
    get_object_tree,
    http_request_response,
    inflate_object_from_contents,
    iterate_object_tree,
    patient_invoker,
    push_objects,
    refuse,
    replace,
    soon,
)
from proxfl.errors import DiskError, InputError
from proxfl.storage.files import write_text

log = logging.getLogger("proxfl.deploy")

PAUSE = 1.0  # before another try to reach the server
RETRY_SECONDS = 3.0  # for which Flower itself tries again
EMPTY_PAUSE = 0.1  # after an answer without a message, which the gate has held back already
RENEW_SECONDS = 600.0  # without a message, after which to connect anew: Flower's heartbeat may die
NODE = "node"  # the file with the number Flower gave this site

CONNECTED = "It is connected to the server."
NO_SERVER = "The server does not answer; it tries again."
NOT_LET_IN = "It waits for the people at the server to add its key, {key}."
UNKNOWN_SERVER = "The server's certificate is not one that ca.pem vouches for; it tries again."
OTHER_NAME = "The server's certificate is for other names than --server has; it tries again."
ENDED = "The server's certificate has ended by the clock of this machine; the server must renew it."
NOT_YET = "The server's certificate is not valid yet by the clock of this machine; is it right?"
CLOCK = "The clock of this machine is {seconds:.0f} s {way} the server's; set it, it tries again."
CERTIFICATE = {9: NOT_YET, 10: ENDED, 62: OTHER_NAME, 64: OTHER_NAME}  # by OpenSSL's numbers
DRIFT = 4.0  # seconds that clocks may differ by: Flower takes 5, and the server's are rounded

replace("flwr_exit", refuse)
replace("make_simple_http_retry_invoker", patient_invoker)


class Stopped(BaseException):
    """The wait for a message was cut short."""


class Stop(threading.Event):
    """A request to end. An answer is finished first; a wait for messages, which is long, is not."""

    def __init__(self):
        super().__init__()
        self.waiting = False

    def request(self, number: int, frame: Any) -> None:
        """What a signal does; it strikes the main thread, in which the site waits."""
        self.set()
        if self.waiting:
            raise Stopped

    @contextlib.contextmanager
    def cutting(self) -> Iterator[None]:
        """A wait that ends with the request."""
        self.waiting = True
        try:
            yield
        finally:
            self.waiting = False


class Server(NamedTuple):
    """Where the server is and how server and site know each other; in the clear both are None."""

    address: str
    authority: Path | None
    key: Path | None

    def trust(self) -> tuple[str, bool, bytes | None]:
        known = None if self.authority is None else self.authority.read_bytes()
        return self.address, known is None, known

    def keys(self) -> Any:
        if self.key is None:
            return None
        private = private_key(self.key)
        return private, private.public_key()


class Connection(NamedTuple):
    """What Flower's connection gives, in its order."""

    node: int
    receive: Callable[[], tuple[Message, Any] | None]
    send: Callable[[Message, Any, float], tuple[set[str], str]]
    get_run: Any
    get_fab: Any
    pull_object: Callable[[int, str], bytes]
    push_object: Callable[[int, str, str, bytes], None]
    confirm: Callable[[int, str], None]


def attend(
    server: Server,
    folder: Path,
    answer: Callable[[bytes], bytes],
    stop: Stop,
    say: Callable[[str], None],
) -> None:
    """Answer the server's messages until told to stop, connecting again whenever that is needed."""
    while not stop.is_set():
        try:
            options: Any = (*server.trust(), server.keys())  # either may have been renewed
            with http_request_response(*options, max_wait_time=RETRY_SECONDS) as opened:
                connection = Connection(*opened)
                write_text(folder / NODE, str(connection.node))
                say(CONNECTED)
                serve(connection, answer, stop, say)
        except ConnectionError as error:
            say(why := reason(error.__context__, server))
            if why == not_let_in(server):
                end_past_life(server, folder)
        except (InputError, DiskError) as error:
            say(str(error))
        except Stopped:
            return
        stop.wait(PAUSE)


def not_let_in(server: Server) -> str:
    """It names the file that is to be added; in the clear there is none, and nobody is kept out."""
    return NOT_LET_IN.format(key="" if server.key is None else server.key.with_suffix(".pub").name)


def reason(error: BaseException | None, server: Server) -> str:
    """Why there is no connection, for the people at the site."""
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
        ahead = seconds_ahead(error.response)
        way = "ahead of" if ahead > 0 else "behind"
        late = CLOCK.format(seconds=abs(ahead), way=way)
        return not_let_in(server) if abs(ahead) < DRIFT else late
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__  # httpx wraps what the socket raised
    return NO_SERVER if error is None else CERTIFICATE.get(error.verify_code, UNKNOWN_SERVER)


def seconds_ahead(answer: httpx.Response) -> float:
    """By how much this machine's clock is ahead of that of the server, as its answer shows it."""
    try:
        there = email.utils.parsedate_to_datetime(answer.headers["date"])
        return (now() - there).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0


def end_past_life(server: Server, folder: Path) -> None:
    """Tell the server that the process before this one, which was killed, is not there any more.

    Otherwise Flower takes the site to be connected for another minute, and refuses it that long.
    """
    keys = server.keys()
    if keys is None or not (folder / NODE).exists():
        return
    interceptors = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(*keys),
    ]
    try:
        with FleetHttpClient.from_server_address(
            *server.trust(), interceptors=interceptors
        ) as client:
            node = int((folder / NODE).read_text())
            client.DeactivateNode(DeactivateNodeRequest(node_id=node))
    except (httpx.HTTPError, ValueError) as error:
        log.info("No past life to end: %s", error)


def serve(
    connection: Connection,
    answer: Callable[[bytes], bytes],
    stop: Stop,
    say: Callable[[str], None],
) -> None:
    """Answer message after message; a server that is away for a while is waited for."""
    last = time.monotonic()
    while not stop.is_set() and time.monotonic() - last < RENEW_SECONDS:
        try:
            with stop.cutting():
                came = connection.receive()
            say(CONNECTED)
            if came is None:
                stop.wait(EMPTY_PAUSE)
            else:
                reply_to(connection, *came, answer)
                last = time.monotonic()
        except RunNotRunningException:
            log.info("A message of a run that has ended is left unanswered.")
        except (httpx.HTTPError, OSError) as error:
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
                raise  # it does not know us any more
            say(NO_SERVER)
            stop.wait(PAUSE)


def reply_to(
    connection: Connection, announced: Message, tree: Any, answer: Callable[[bytes], bytes]
) -> None:
    """One message in, one out."""
    run, begun = announced.metadata.run_id, time.monotonic()
    message = fetched(announced, tree, lambda part: connection.pull_object(run, part))
    if message is not None:
        reply = Message(wrap(answered(message, answer)), reply_to=message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        wanted, session = connection.send(reply, get_object_tree(reply), time.monotonic() - begun)
        push = lambda name, content: connection.push_object(run, session, name, content)
        push_objects(get_all_nested_objects(reply), push, object_ids_to_push=wanted)
    connection.confirm(run, tree.object_id)  # also of one that cannot be read, or it comes again


def fetched(announced: Message, tree: Any, pull: Callable[[str], bytes]) -> Message | None:
    """A message with its content; None if Flower cannot read it."""
    parts = list(iterate_object_tree(tree))
    contents = [part for part in parts if not part.children]
    alone = len(contents) == 1  # whose place among others nobody need ask for
    pulled = soon([part.object_id for part in (contents if alone else parts)], pull_object_fn=pull)
    try:
        if alone:
            content: Any = inflate_object_from_contents(contents[0].object_id, pulled)
            announced.content = RecordDict({NAME: content})
            return announced
        message: Any = inflate_object_from_contents(tree.object_id, pulled)
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message
    except Exception as error:  # what a server sends can break Flower's reading of it
        log.warning("Flower cannot read a message (%s); it stays unanswered.", type(error).__name__)
        return None


def answered(message: Message, answer: Callable[[bytes], bytes]) -> bytes:
    try:
        return answer(unwrap(message))
    except BadMessage as error:
        return wire.refusal(wire.brief(b""), str(error))
