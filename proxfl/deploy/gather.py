"""One exchange with the sites over Flower: ask, wait, check, ask again.

Replies are fetched one by one, each by a thread of its own: Flower waits for minutes for a reply
whose sender died while sending it, and the others must not wait with it.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException

from proxfl.deploy import wire
from proxfl.deploy.envelope import flower_bytes, unwrap, wrap
from proxfl.deploy.server.ledger import Ledger
from proxfl.deploy.roster import Node, Roster
from proxfl.deploy.protocol.wire import BadMessage, Frame, Header, Passing

LOOKS_APART = 5  # polls for replies between two looks who is there
SAME_FAULTS = 3  # a site that fails this often in the same words will go on doing so


class TooFewSites(RuntimeError):
    """The run cannot go on now; its state is intact."""


class Patience(NamedTuple):
    """How long to wait for whom, in seconds.

    With `quorum` sites in, the others are waited for until `wait` is over, and not at all if the
    last exchange went on without them and they are still gone. Below the quorum, the wait is
    until `deadline`. None is everyone; a method that needs everyone gets everyone or none.
    """

    quorum: int | None = None
    wait: float = 120.0
    deadline: float = 600.0
    poll: float = 0.2
    pause: float = 2.0  # before asking a site again that could not answer


class Request(NamedTuple):
    """What one site is asked: as bytes, how many of them are payload, and what to call it."""

    header: Header
    frame: bytes
    payload: int
    kind: str


class Sent(NamedTuple):
    """A question on its way."""

    number: str
    node: Node


class Diverged(NamedTuple):
    """A site's answer whose numbers overflowed; the site keeps nothing of it."""

    reason: str


class Gather:
    """The state of one exchange."""

    def __init__(self, grid: Grid, tag: bytes, roster: Roster, ledger: Ledger, patience: Patience):
        self.grid = grid
        self.tag = tag
        self.roster = roster
        self.ledger = ledger
        self.patience = patience
        self.inbox: queue.Queue[tuple[str, Message | Exception]] = queue.Queue()
        self.over = threading.Event()
        self.sent: dict[str, Sent] = {}
        self.greeted: dict[str, int] = {}  # by message, the node asked for its name
        self.answers: dict[str, Any] = {}
        self.faults: Counter[tuple[str, str]] = Counter()
        self.not_before: dict[str, float] = {}
        self.next_look = 0.0

    def run(
        self,
        requests: dict[str, Request],
        kind: int,
        read: Callable[[Frame], Any],
        everyone: bool,
    ) -> dict[str, Any]:
        """What `read` makes of each site's reply, by site; raises TooFewSites."""
        try:
            return self.wait_for(requests, kind, read, everyone)
        finally:
            self.over.set()

    def wait_for(
        self,
        requests: dict[str, Request],
        kind: int,
        read: Callable[[Frame], Any],
        everyone: bool,
    ) -> dict[str, Any]:
        begun, step = time.monotonic(), wire.plain(next(iter(requests.values())).header.step)
        wanted = self.patience.quorum or len(self.roster.sites)
        quorum = len(requests) if everyone else min(wanted, len(requests))
        while True:
            self.look_who_is_there()
            self.post(requests)
            self.collect(requests, kind, read)
            waited, missing = time.monotonic() - begun, requests.keys() - self.answers.keys()
            late = waited > self.patience.wait or all(map(self.hopeless, missing))
            if not missing or (len(self.answers) >= quorum and late):
                self.note_absence(step, requests.keys(), missing)
                return self.answers
            able = len(self.answers) + len(missing - self.stuck().keys())
            if waited > self.patience.deadline or able < quorum:
                raise TooFewSites(self.explain(sorted(missing), quorum, waited))

    def look_who_is_there(self) -> None:
        """Less often than for replies: sites come and go more seldom."""
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + LOOKS_APART * self.patience.poll
            self.greet(self.roster.update(self.grid.get_nodes()))

    def note_absence(self, step: int, asked: Set[str], missing: Set[str]) -> None:
        for site in sorted(missing - self.roster.away):
            self.ledger.fault(step, site, "It did not answer; going on without it.")
        for site in sorted((self.roster.away & asked) - missing):
            self.ledger.fault(step, site, "It is back.")
        self.roster.away = (self.roster.away - asked) | missing

    def stuck(self) -> dict[str, str]:
        """The sites that keep failing, and the words for it."""
        often = [pair for pair, times in self.faults.items() if times >= SAME_FAULTS]
        return {site: words for site, words in often if site not in self.answers}

    def hopeless(self, site: str) -> bool:
        gone = site not in self.roster.present or site in self.not_before
        return site in self.stuck() or (site in self.roster.away and gone)

    def explain(self, away: list[str], quorum: int, waited: float) -> str:
        last = {site: words for site, words in self.faults}
        there = lambda site: "connected" if site in self.roster.present else "not connected"
        reasons = "; ".join(f"{site} ({last.get(site) or there(site)})" for site in away)
        return (
            f"Only {len(self.answers)} sites answered within {waited:.0f} s where {quorum} are "
            f"needed. Missing: {reasons}. Nothing is lost: mend that and resume."
        )

    def post(self, requests: dict[str, Request]) -> None:
        """Ask every present site that has not been asked in its present life."""
        now = time.monotonic()
        for site, request in requests.items():
            node, sent = self.roster.present.get(site), self.sent.get(site)
            if node is None or site in self.answers or now < self.not_before.get(site, 0.0):
                continue
            if sent is not None and sent.node == node:
                continue
            if sent is not None:
                step = wire.plain(request.header.step)
                self.ledger.fault(step, site, "It restarted; asking it again.")
            number, size = self.push(request.frame, node.number, request.header)
            if number:
                self.sent[site] = Sent(number, node)
                sizes = (request.payload, len(request.frame), size)
                self.ledger.enter("down", site, request.kind, *sizes)

    def push(self, frame: bytes, node: int, header: Header) -> tuple[str, int]:
        kind = "train" if header.kind == wire.VISIT else "query"
        lifetime = self.patience.deadline + 60.0
        message = Message(wrap(frame), node, kind, ttl=lifetime, group_id=str(header.round))
        size = flower_bytes(message)
        (number,) = self.grid.push_messages([message]) or ("",)
        if number:
            job = (self.grid, number, self.patience.poll, self.inbox, self.over)
            threading.Thread(target=fetch, args=job, daemon=True).start()
        return number or "", size

    def greet(self, unknown: list[int]) -> None:
        """Ask nodes seen for the first time which site they are."""
        header = Header(wire.HELLO, self.tag, wire.ANY_SITE)
        for node in set(unknown) - set(self.greeted.values()):
            number, _ = self.push(wire.encode(header, {}, {}), node, header)
            if number:
                self.greeted[number] = node

    def collect(
        self, requests: dict[str, Request], kind: int, read: Callable[[Frame], Any]
    ) -> None:
        """Take what has come; a reply to a question asked again since is too late."""
        asked = {sent.number: site for site, sent in self.sent.items()}
        for number, reply in received(self.inbox, self.patience.poll):
            if isinstance(reply, RunNotRunningException):
                raise reply
            site = asked.get(number)
            if site is not None and site not in self.answers:
                self.accept(site, reply, requests[site], kind, read)
            elif number in self.greeted:
                self.meet(self.greeted.pop(number), reply)

    def accept(
        self,
        site: str,
        message: Message | Exception,
        request: Request,
        kind: int,
        read: Callable[[Frame], Any],
    ) -> None:
        step = wire.plain(request.header.step)
        try:
            data, size = opened(message)
            frame = decoded(data, kind)
            wire.same_place(request.header, frame.header, f"Site {site}")
            payload = wire.payload_bytes(frame.payload) + wire.payload_bytes(frame.settings)
            self.ledger.enter("up", site, request.kind, payload, len(data), size)
            if frame.header.kind == wire.DIVERGED:
                self.answers[site] = Diverged(reason_in(frame))
                self.ledger.fault(step, site, reason_in(frame))
            else:
                self.answers[site] = read(frame)
        except BadMessage as error:
            if not isinstance(error, Passing):
                self.faults[site, str(error)] += 1
            self.ledger.fault(step, site, str(error))
            del self.sent[site]
            self.not_before[site] = time.monotonic() + self.patience.pause

    def meet(self, node: int, message: Message | Exception) -> None:
        try:
            frame = decoded(opened(message)[0], wire.ANSWER)
            name = frame.payload.get("site")
            if frame.header.experiment != self.tag or not isinstance(name, str):
                raise BadMessage("It takes part in another experiment.")
            if name not in self.roster.sites:
                raise BadMessage(f"It calls itself {name!r}, which is no site of this experiment.")
            self.roster.learn(node, name)
        except BadMessage as error:
            self.ledger.fault(0, f"node {node}", f"Not let in: {error}")
            if not isinstance(error, Passing):
                self.roster.learn(node, "")  # a stranger, not to be asked again


def fetch(grid: Grid, number: str, poll: float, inbox: queue.Queue, over: threading.Event) -> None:
    """Put the reply to a message into the inbox, once there is one."""
    try:
        while not over.is_set():
            for reply in grid.pull_messages([number]):
                inbox.put((number, reply))
                return
            over.wait(poll)
    except Exception as error:  # what a site sends can break Flower's reading of it
        inbox.put((number, error))


def received(inbox: queue.Queue, seconds: float) -> Iterator[tuple[str, Message | Exception]]:
    """What is in the inbox, waiting a little for the first."""
    try:
        yield inbox.get(timeout=seconds)
        while True:
            yield inbox.get_nowait()
    except queue.Empty:
        return


def opened(reply: Message | Exception) -> tuple[bytes, int]:
    """Our bytes in a reply, and the size of the whole."""
    if isinstance(reply, Exception):
        raise BadMessage(f"Flower cannot read its reply ({type(reply).__name__}).") from reply
    return unwrap(reply), flower_bytes(reply)


def decoded(data: bytes, kind: int) -> Frame:
    """A reply of the kind that was asked for, or BadMessage in the site's words or ours."""
    frame = wire.decode(data)
    found = frame.header.kind
    if found == wire.REFUSAL:
        passing = frame.settings.get("passing")
        worth_asking_again = isinstance(passing, np.ndarray) and bool(passing.all())
        raise (Passing if worth_asking_again else BadMessage)(reason_in(frame))
    if found != kind and (found, kind) != (wire.DIVERGED, wire.UPLINK):
        raise BadMessage(f"A message of kind {found} came where {kind} was due.")
    return frame


def reason_in(frame: Frame) -> str:
    """What a site says, fit for a log: one line, not too long."""
    return " ".join(str(frame.payload.get("reason", "")).split())[:500]
