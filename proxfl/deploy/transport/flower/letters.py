"""What lies in the SuperLink's database: messages for sites, and their replies.

To ask the SuperLink costs it milliseconds, whether or not there is anything. A look into its
database, from beside it and for reading only, costs it nothing, and whether anything has changed
since the last one is known in microseconds: so looks can be many.
"""

import json
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from proxfl.deploy.transport.flower.private_names import PARTS, REPLIES, UNDELIVERED, look

log = logging.getLogger("proxfl.deploy")

SOON, SELDOM = 0.01, 0.25  # seconds between two looks, at least and at most
SLACK = 0.025  # of the time for which nothing has happened: no longer is what comes kept waiting


class Letters:
    """A message counts once all of it is there: Flower announces it before that."""

    def __init__(self, database: Path):
        self.address = f"{database.resolve().as_uri()}?mode=ro"
        self.base: sqlite3.Connection | None = None
        self.lock = threading.Lock()
        self.version, self.stirred = -1, -math.inf

    def rows(self, query: str, *values: Any) -> list[tuple]:
        with self.lock:
            try:
                if self.base is None:
                    options: Any = {"uri": True, "timeout": 0.0, "check_same_thread": False}
                    self.base = sqlite3.connect(self.address, **options)
                return look(self.base, query, *values)
            except sqlite3.Error as error:  # it is being made, or made anew: open it anew
                log.debug("The database is not to be read now: %s", error)
                self.base = None
                return []

    def changed(self) -> bool:
        """Whether anything was written since this was asked before, as far as can be told."""
        before, found = self.version, self.rows("PRAGMA data_version")
        self.version = found[0][0] if found else -1
        return self.version == -1 or self.version != before

    def stir(self) -> None:
        """Something goes on."""
        self.stirred = time.monotonic()

    @property
    def pause(self) -> float:
        """Seconds until the next look: short in a round, and where nothing goes on, few looks."""
        return min(max(SLACK * (time.monotonic() - self.stirred), SOON), SELDOM)

    def nodes(self) -> set[int]:
        """The nodes for which there are messages."""
        found = self.rows(UNDELIVERED, time.time())
        return {number % 2**64 for (number,) in found}  # SQLite has no unsigned numbers

    def replies(self, names: Collection[str]) -> dict[str, str]:
        """By message, the name of its reply if it has one: empty until all of it is there."""
        found = self.rows(REPLIES, json.dumps([*names]))
        return {name: reply if whole else "" for name, reply, whole in found}

    def parts(self, name: str) -> dict[str, bytes]:
        """The parts of a message, by name, itself among them."""
        return dict(self.rows(PARTS, name))
