"""Replies to what the server has sent, each taken as soon as all of it is there.

Flower is asked for each by a thread of its own: it waits for up to a minute for a reply whose
sender died while sending it, and the others must not wait with it.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flwr.serverapp import Grid

from proxfl.deploy.protocol.transport import Arrival
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.transport.flower.envelope import flower_bytes, unwrap
from proxfl.deploy.transport.flower.letters import Letters
from proxfl.deploy.transport.flower.private_names import (
    RunNotRunningException,
    inflate_object_from_contents,
)

log = logging.getLogger("proxfl.deploy")

SELDOM = 2.0  # seconds until Flower is asked about what its database has no reply to
FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0  # where the database is not at hand: each costs the SuperLink
BETWEEN = 0.05  # seconds between two thoughts of it there


@dataclass
class Awaited:
    """To whom a message went and since when a reply to it is awaited, and when Flower is asked."""

    to: str
    since: float
    next: float


class Replies:
    """`inbox` has what came, or why nothing will. Looks only while something is awaited.

    With the database at hand, replies are read there, and Flower hears afterwards which ones, all
    together; it is asked now and then, since it alone tells that the run has ended or a site is
    gone. Without, it is asked all the time.
    """

    def __init__(self, grid: Grid, letters: Letters | None):
        self.grid, self.letters = grid, letters
        self.inbox: queue.Queue[Arrival | Exception] = queue.Queue()
        self.awaited: dict[str, Awaited] = {}
        self.read: list[str] = []
        self.lock, self.looking = threading.Lock(), False

    def expect(self, name: str, to: str) -> None:
        now = time.monotonic()
        wait = FIRST_WAIT if self.letters is None else SELDOM
        if self.letters is not None:
            self.letters.stir()
        self.put_back(name, Awaited(to, now, now + wait), self.awaited)

    def put_back(self, name: str, one: Awaited, where: dict[str, Awaited]) -> None:
        """Await a reply, unless all was forgotten since."""
        with self.lock:
            where[name] = one
            begin = not self.looking and where is self.awaited
            self.looking |= begin
        if begin:
            threading.Thread(target=self.look, daemon=True).start()

    def forget(self) -> None:
        with self.lock:
            self.awaited, read, self.read = {}, self.read, []
        if read:
            threading.Thread(target=self.clear, args=(read,), daemon=True).start()

    def clear(self, names: list[str]) -> None:
        """Flower keeps replies until they are fetched from it."""
        try:
            self.grid.pull_messages(names)
        except Exception as error:  # which is nobody's loss
            log.debug("Replies stay with Flower: %s", error)

    def look(self) -> None:
        """Take what is there, and begin to ask Flower where that is due, until all is here."""
        while True:
            with self.lock:
                awaited = self.awaited
                if not awaited:
                    self.looking = False
                    return
                now, names = time.monotonic(), [*awaited]
            there = {} if self.letters is None else self.letters.replies(names)
            for name in names:
                one, reply = awaited[name], there.get(name)
                if reply:
                    self.take(name, reply, awaited.pop(name).to)
                elif reply is None and now >= one.next:
                    job = (name, awaited.pop(name), awaited)
                    threading.Thread(target=self.ask, args=job, daemon=True).start()
            time.sleep(BETWEEN if self.letters is None else self.letters.pause)

    def take(self, name: str, reply: str, to: str) -> None:
        """Read a reply in the database."""
        with self.making_of(name, to):
            parts = self.letters.parts(reply) if self.letters is not None else {}
            message: Any = inflate_object_from_contents(reply, parts)
            self.inbox.put(Arrival(to, name, unwrap(message), flower_bytes(message)))
        self.read.append(name)

    def ask(self, name: str, one: Awaited, awaited: dict[str, Awaited]) -> None:
        """Ask Flower for the reply to a message; if there is none, look on."""
        with self.making_of(name, one.to):
            for reply in self.grid.pull_messages([name]):
                self.inbox.put(Arrival(one.to, name, unwrap(reply), flower_bytes(reply)))
                return
            now = time.monotonic()  # a reply is noticed within a tenth of its time
            wait = min(LONGEST_WAIT, max(FIRST_WAIT, (now - one.since) / 10))
            one.next = now + (wait if self.letters is None else SELDOM)
            self.put_back(name, one, awaited)

    @contextlib.contextmanager
    def making_of(self, name: str, to: str) -> Iterator[None]:
        """What goes wrong with a reply is what came of it."""
        try:
            yield
        except BadMessage as error:
            self.inbox.put(Arrival(to, name, error))
        except RunNotRunningException as error:
            self.inbox.put(error)
        except Exception as error:  # what a site sends can break Flower's reading of it
            problem = BadMessage(f"Flower cannot read its reply ({type(error).__name__}).")
            self.inbox.put(Arrival(to, name, problem))
