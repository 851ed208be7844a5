"""What crossed the network and what went wrong, site by site."""

import dataclasses
import json
import logging
import time
from collections import Counter, defaultdict
from typing import NamedTuple

log = logging.getLogger("proxfl.deploy")


class Traffic(NamedTuple):
    """Messages of one kind; all sizes are in bytes.

    `payload` is the numbers that are exchanged. `frame` adds our header, table and settings, and
    `flower` is the whole message as Flower stores it. HTTP and TLS come on top.
    """

    messages: int = 0
    payload: int = 0
    frame: int = 0
    flower: int = 0


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that did not go as it should; the run went on unless it says otherwise."""

    time: float
    step: int
    site: str
    sentence: str


class Ledger:
    """The books of one experiment: by way (up or down), site, and kind (round, or a task)."""

    def __init__(self):
        self.books: defaultdict[tuple[str, str, str], Traffic] = defaultdict(Traffic)
        self.exchanges: Counter[str] = Counter()  # by kind, however many messages each took
        self.faults: list[Fault] = []

    def enter(self, way: str, site: str, kind: str, payload: int, frame: int, flower: int) -> None:
        """Write one message into the books."""
        before = self.books[way, site, kind]
        added = zip(before, (1, payload, frame, flower), strict=True)
        self.books[way, site, kind] = Traffic(*(old + new for old, new in added))

    def total(self, way: str, site: str | None = None, kind: str | None = None) -> Traffic:
        """All messages of a way, or those of one site or kind."""
        wanted = (way, site, kind)
        chosen = [
            traffic
            for key, traffic in self.books.items()
            if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
        ]
        return Traffic(*(sum(column) for column in zip(Traffic(), *chosen, strict=True)))

    def fault(self, step: int, site: str, sentence: str) -> None:
        log.warning("Step %d, site %s: %s", step, site, sentence)
        self.faults.append(Fault(time.time(), step, site, sentence))

    def to_json(self) -> str:
        books = [[*key, *traffic] for key, traffic in self.books.items()]
        faults = [dataclasses.asdict(fault) for fault in self.faults]
        held = {"books": books, "exchanges": self.exchanges, "faults": faults}
        return json.dumps(held, indent=1)


def read_ledger(text: str) -> Ledger:
    held, ledger = json.loads(text), Ledger()
    ledger.exchanges.update(held["exchanges"])
    for way, site, kind, *numbers in held["books"]:
        ledger.books[way, site, kind] = Traffic(*numbers)
    ledger.faults = [Fault(**fault) for fault in held["faults"]]
    return ledger
