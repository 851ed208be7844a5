"""Replies to what the server has sent, each fetched as soon as all of it is there.

Each is fetched by a thread of its own: Flower waits for up to a minute for a reply whose sender
died while sending it, and the others must not wait with it.
"""

import queue
import threading
import time
from dataclasses import dataclass

from flwr.serverapp import Grid

from proxfl.deploy.protocol.transport import Arrival
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.transport.flower.envelope import flower_bytes, unwrap
from proxfl.deploy.transport.flower.letters import LATER, Letters
from proxfl.deploy.transport.flower.private_names import RunNotRunningException

SELDOM = 2.0  # seconds until Flower is asked about what its database has no reply to
FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0  # where the database is not at hand: each costs the SuperLink


@dataclass
class Awaited:
    """To whom a message went and since when a reply to it is awaited, and when Flower is asked."""

    to: str
    since: float
    next: float


class Replies:
    """`inbox` has what came, or why nothing will. Looks only while something is awaited.

    The database shows replies; Flower itself is asked now and then, since it alone tells that the
    run has ended, or a site gone. Without a database it is asked all the time.
    """

    def __init__(self, grid: Grid, letters: Letters | None):
        self.grid, self.letters = grid, letters
        self.inbox: queue.Queue[Arrival | Exception] = queue.Queue()
        self.awaited: dict[str, Awaited] = {}
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
            self.awaited = {}

    def look(self) -> None:
        """Begin to fetch what is due, until nothing is awaited any more."""
        while True:
            with self.lock:
                awaited = self.awaited
                if not awaited:
                    self.looking = False
                    return
            for name in self.due(dict(awaited)):
                with self.lock:
                    one = awaited.pop(name)
                threading.Thread(target=self.fetch, args=(name, one, awaited), daemon=True).start()
            time.sleep(LATER if self.letters is None else self.letters.pause)

    def due(self, awaited: dict[str, Awaited]) -> list[str]:
        """Those whose reply is there, or about which Flower is to be asked."""
        now, there = time.monotonic(), {}
        if self.letters is not None:
            there = self.letters.replies(awaited)
        return [n for n, one in awaited.items() if there.get(n, now >= one.next)]

    def fetch(self, name: str, one: Awaited, awaited: dict[str, Awaited]) -> None:
        """Put the reply to a message into the inbox, if there is one; otherwise look on."""
        try:
            for reply in self.grid.pull_messages([name]):
                self.inbox.put(Arrival(one.to, name, unwrap(reply), flower_bytes(reply)))
                return
            now = time.monotonic()  # a reply is noticed within a tenth of its time
            wait = min(LONGEST_WAIT, max(FIRST_WAIT, (now - one.since) / 10))
            one.next = now + (wait if self.letters is None else SELDOM)
            self.put_back(name, one, awaited)
        except BadMessage as error:
            self.inbox.put(Arrival(one.to, name, error))
        except RunNotRunningException as error:
            self.inbox.put(error)
        except Exception as error:  # what a site sends can break Flower's reading of it
            problem = BadMessage(f"Flower cannot read its reply ({type(error).__name__}).")
            self.inbox.put(Arrival(one.to, name, problem))
