"""A network inside one process, under a virtual clock: deterministic simulation testing.

Frames go straight to `Worker.answer`. What becomes of each is for `fate` to say, and nothing takes
real time: a run in which half of all messages are lost ends in milliseconds, and the same fates
give the same run.
"""

import heapq
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from proxfl.deploy.protocol.transport import Arrival, Sending, Transport
from proxfl.deploy.site.worker import Worker


class Fate(NamedTuple):
    """What becomes of a frame: the copies that arrive and after how many seconds.

    A site that crashes does so before it answers a frame that goes down, and after it answered one
    that goes up: its state is written, its reply is lost.
    """

    copies: tuple[tuple[float, bytes], ...]
    crash: bool = False


Fates = Callable[[str, str, bytes], Fate]  # of a way ("down" or "up"), a site and a frame


def undisturbed(way: str, site: str, frame: bytes) -> Fate:
    return Fate(((0.0, frame),))


class MemorySite:
    """A site's process: `start` makes it from what is in its folder."""

    def __init__(self, start: Callable[[], Worker]):
        self.start, self.worker = start, start()
        self.life, self.online = 0, True

    def restart(self) -> None:
        self.worker, self.life = self.start(), self.life + 1

    def attend(self, online: bool) -> None:
        """Be there or not; who comes back does so in a new life."""
        self.life += online and not self.online
        self.online = online


class MemoryTransport(Transport):
    """`moment` is called whenever the server touches the network, and may end its life there."""

    def __init__(
        self,
        sites: Mapping[str, MemorySite],
        fate: Fates = undisturbed,
        moment: Callable[[], None] = lambda: None,
    ):
        self.sites, self.fate, self.moment = sites, fate, moment
        self.time, self.sendings = 0.0, itertools.count(1)
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()  # of events at the same time
        self.inbox: list[Arrival] = []

    def present(self) -> Mapping[str, str]:
        return {name: str(site.life) for name, site in self.sites.items() if site.online}

    def send(self, frames: Mapping[str, bytes]) -> Mapping[str, Sending]:
        sent = {}
        for site, frame in frames.items():
            self.moment()
            name, fate = f"sending {next(self.sendings)}", self.fate("down", site, frame)
            for delay, copy in fate.copies:
                self.later(delay, partial(self.deliver, site, name, copy, fate.crash))
            sent[site] = Sending(name, len(frame))
        return sent

    def deliver(self, name: str, sending: str, frame: bytes, crash: bool) -> None:
        site = self.sites[name]
        if not site.online:
            return
        if crash:
            site.restart()
            return
        reply = site.worker.answer(frame)
        fate = self.fate("up", name, reply)
        if fate.crash:
            site.restart()
            return
        for delay, copy in fate.copies:
            arrival = Arrival(name, sending, copy, len(copy))
            self.later(delay, lambda arrival=arrival: self.inbox.append(arrival))

    def later(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.time + delay, next(self.order), action))

    def receive(self, seconds: float) -> list[Arrival]:
        until = self.time + seconds
        while self.events and self.events[0][0] <= (self.time if self.inbox else until):
            self.time, _, action = heapq.heappop(self.events)
            action()
        if not self.inbox:
            self.time = until
        arrived, self.inbox = self.inbox, []
        if arrived:
            self.moment()
        return arrived

    def forget(self) -> None:
        self.moment()

    def now(self) -> float:
        return self.time
