"""What crossed the network and what went wrong, site by site."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

log = logging.getLogger("proxfl.deploy")


class Sizes(NamedTuple):
    """Messages of one kind, and their bytes.

    `payload` is the numbers that are exchanged. `frame` adds our header, table and settings, and
    `wire` is the whole as the transport carries it. HTTP and TLS come on top.
    """

    messages: int = 0
    payload: int = 0
    frame: int = 0
    wire: int = 0


NOBODY = ""  # whose faults are those of which no one site is the cause


class Fault(NamedTuple):
    """Something that did not go as it should; the run went on unless it says otherwise."""

    time: float
    step: int
    site: str
    sentence: str


class Ledger:
    """The books of one experiment: by way (up or down), site, and kind (round, or a task)."""

    def __init__(self):
        self.books: defaultdict[tuple[str, str, str], Sizes] = defaultdict(Sizes)
        self.exchanges: Counter[str] = Counter()  # by kind, however many messages each took
        self.faults: list[Fault] = []

    def enter(self, way: str, site: str, kind: str, payload: int, frame: int, wire: int) -> None:
        """Write one message into the books."""
        before = self.books[way, site, kind]
        added = zip(before, (1, payload, frame, wire), strict=True)
        self.books[way, site, kind] = Sizes(*(old + new for old, new in added))

    def total(self, way: str, site: str | None = None, kind: str | None = None) -> Sizes:
        """All messages of a way, or those of one site or kind."""
        wanted = (way, site, kind)
        chosen = [
            traffic
            for key, traffic in self.books.items()
            if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
        ]
        return Sizes(*(sum(column) for column in zip(Sizes(), *chosen, strict=True)))

    def fault(self, step: int, site: str, sentence: str) -> None:
        who = "" if site == NOBODY else f", site {site}"
        log.warning("Step %d%s: %s", step, who, sentence)
        self.faults.append(Fault(time.time(), step, site, sentence))

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "books": [[*key, *sizes] for key, sizes in self.books.items()],
            "exchanges": self.exchanges,
            "faults": self.faults,
        }


def read_ledger(held: Mapping[str, Any]) -> Ledger:
    ledger = Ledger()
    ledger.exchanges.update(held["exchanges"])
    for way, site, kind, *numbers in held["books"]:
        ledger.books[way, site, kind] = Sizes(*numbers)
    ledger.faults = [Fault(*fault) for fault in held["faults"]]
    return ledger
