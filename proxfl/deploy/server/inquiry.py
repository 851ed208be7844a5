"""One question to each of some sites: ask, wait, check, ask again.

The policy of retries, quorum and deadlines, over any transport. A question may be sent again at
will, since sites are idempotent: a repeated question gets the first answer, byte for byte.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.transport import Arrival, Transport
from proxfl.deploy.protocol.wire import BadMessage, Frame, Header, Transient, step_number
from proxfl.deploy.server.ledger import Ledger

LOOKS_APART = 5  # polls for replies between two looks who is there
SAME_FAULTS = 3  # a site that fails this often in the same words will go on doing so


class TooFewSites(RuntimeError):
    """The run cannot go on now; its state is intact."""


class Patience(NamedTuple):
    """How long to wait for whom, in seconds.

    With `quorum` sites in, the others are waited for until `wait` is over, and not at all if the
    last inquiry went on without them and they are still gone. Below the quorum, the wait is
    until `deadline`. None is everyone; a method that needs everyone gets everyone or none. A site
    that is there and silent is asked again after `silence`, and then after twice that each time.
    """

    quorum: int | None = None
    wait: float = 120.0
    deadline: float = 600.0
    silence: float = 60.0
    poll: float = 0.2
    pause: float = 2.0  # before asking a site again that could not answer


class Request(NamedTuple):
    """What one site is asked: as bytes, how many of them are payload, and what to call it."""

    header: Header
    frame: bytes
    payload: int
    kind: str


class Attempt(NamedTuple):
    """In which of its lives a site was asked, and when it is to be asked again."""

    life: str
    again: float


class Diverged(NamedTuple):
    """A site's answer whose numbers overflowed; the site keeps nothing of it."""

    reason: str


@dataclass
class Attendance:
    """Who is there, with the token of their life, and whom the last inquiry went on without.

    Sites come and go more seldom than replies, so there is a look at them at times only.
    """

    present: Mapping[str, str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    next_look: float = -math.inf


@dataclass
class Inquiry:
    """One question to each of some sites; `read` makes of a reply of the right `kind` what it is.

    `everyone` says that no quorum will do.
    """

    transport: Transport
    attendance: Attendance
    ledger: Ledger
    patience: Patience
    requests: dict[str, Request]
    kind: int
    read: Callable[[Frame], Any]
    everyone: bool
    attempts: dict[str, Attempt] = field(default_factory=dict)
    times_asked: Counter[str] = field(default_factory=Counter)
    sendings: dict[str, str] = field(default_factory=dict)  # by name, the site it went to
    answers: dict[str, Any] = field(default_factory=dict)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    not_before: dict[str, float] = field(default_factory=dict)

    def __post_init__(self):
        wanted = None if self.everyone else self.patience.quorum
        self.quorum = min(wanted or len(self.requests), len(self.requests))
        self.step = step_number(next(iter(self.requests.values())).header.step)

    def run(self) -> dict[str, Any]:
        """What was read of each site's reply, by site; raises TooFewSites."""
        begun = self.transport.now()
        if not self.requests.keys() <= self.attendance.present.keys():  # who was away may be back
            self.attendance.next_look = begun
        while True:
            self.look_who_is_there()
            self.post()
            for arrival in self.transport.receive(self.patience.poll):
                self.take(arrival)
            waited, missing = self.transport.now() - begun, self.requests.keys() - self.answers
            late = waited > self.patience.wait or all(map(self.hopeless, missing))
            if not missing or (len(self.answers) >= self.quorum and late):
                self.note_absence(missing)
                self.transport.forget()
                return self.answers
            able = len(self.answers) + len(missing - self.stuck())
            if waited > self.patience.deadline or able < self.quorum:
                self.transport.forget()
                raise TooFewSites(self.explain(sorted(missing), waited))

    def look_who_is_there(self) -> None:
        now, attendance = self.transport.now(), self.attendance
        if now >= attendance.next_look:
            attendance.next_look = now + LOOKS_APART * self.patience.poll
            attendance.present = self.transport.present()

    def post(self) -> None:
        """Ask every present site that was not asked in its present life, or has been silent."""
        now, frames = self.transport.now(), {}
        for site, request in self.requests.items():
            life, last = self.attendance.present.get(site), self.attempts.get(site)
            if life is None or site in self.answers or now < self.not_before.get(site, now):
                continue
            if last is not None and last.life == life and now < last.again:
                continue
            if last is not None:
                why = "It is silent" if last.life == life else "It restarted"
                self.ledger.fault(self.step, site, f"{why}; asking it again.")
            frames[site] = request.frame
        for site, sending in self.transport.send(frames).items() if frames else ():
            request, life = self.requests[site], self.attendance.present[site]
            silence = self.patience.silence * 2 ** self.times_asked[site]
            self.attempts[site] = Attempt(life, now + silence)
            self.times_asked[site] += 1
            self.sendings[sending.name] = site
            sizes = (request.payload, len(request.frame), sending.size)
            self.ledger.enter("down", site, request.kind, *sizes)

    def take(self, arrival: Arrival) -> None:
        """An answer to any sending of this inquiry will do; those of others come too late."""
        site = self.sendings.get(arrival.sending)
        if not arrival.sending:
            self.ledger.fault(self.step, arrival.sender, str(arrival.content))
        if site is None or site in self.answers:
            return
        try:
            if isinstance(arrival.content, BadMessage):
                raise arrival.content
            frame, request = wire.decode_reply(arrival.content, self.kind), self.requests[site]
            wire.same_place(request.header, frame.header, f"Site {site}")
            diverged = frame.header.kind == wire.DIVERGED
            answer = Diverged(wire.reason_in(frame)) if diverged else self.read(frame)
        except BadMessage as error:
            self.note_failure(site, error)
            return
        payload = wire.payload_bytes(frame.payload) + wire.payload_bytes(frame.settings)
        sizes = (payload, len(arrival.content), arrival.size)
        self.ledger.enter("up", site, request.kind, *sizes)
        self.answers[site] = answer

    def note_failure(self, site: str, error: BadMessage) -> None:
        """Write down that a site did not answer, and ask it again after a pause."""
        if not isinstance(error, Transient):
            self.faults[site, str(error)] += 1
        self.ledger.fault(self.step, site, str(error))
        self.attempts.pop(site, None)
        self.not_before[site] = self.transport.now() + self.patience.pause

    def note_absence(self, missing: Set[str]) -> None:
        away = self.attendance.away
        for site in sorted(missing - away):
            self.ledger.fault(self.step, site, "It did not answer; going on without it.")
        for site in sorted((away & self.requests.keys()) - missing):
            self.ledger.fault(self.step, site, "It is back.")
        self.attendance.away = (away - self.requests.keys()) | missing

    def stuck(self) -> set[str]:
        """The sites that keep failing in the same words."""
        return {site for (site, _), times in self.faults.items() if times >= SAME_FAULTS}

    def hopeless(self, site: str) -> bool:
        gone = site not in self.attendance.present or site in self.not_before
        return site in self.stuck() or (site in self.attendance.away and gone)

    def explain(self, missing: list[str], waited: float) -> str:
        last = {site: words for site, words in self.faults}
        there = lambda site: "silent" if site in self.attendance.present else "not connected"
        reasons = "; ".join(f"{site} ({last.get(site) or there(site)})" for site in missing)
        return (
            f"Only {len(self.answers)} sites answered within {waited:.0f} s where {self.quorum} "
            f"are needed. Missing: {reasons}. Nothing is lost: mend that and resume."
        )
