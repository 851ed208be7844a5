"""Which nodes have messages waiting: one look into the SuperLink's database for all sites.

A site asks for messages all the time. Were each question passed on, the SuperLink would do little
else. So a question waits here, and one query finds out for all of them, many times in a second.
"""

import asyncio
import logging
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from proxfl.deploy.transport.flower.private_names import UNDELIVERED

log = logging.getLogger("proxfl.deploy")

LOOK_SECONDS = 0.05
COME, OVER, REPLACED = "come", "over", "replaced"


class Asker(NamedTuple):
    """Who asks, by its key, and for the messages of which node: that it is its own is not known."""

    key: bytes
    node: int


class Mail:
    """`wait` for a message; `watch` must run meanwhile."""

    def __init__(self, database: Path):
        self.address = f"{database.resolve().as_uri()}?mode=ro"
        self.waiting: dict[Asker, asyncio.Future[str]] = {}
        self.base: sqlite3.Connection | None = None

    def nodes(self) -> set[int]:
        """The nodes for which there are messages."""
        if self.base is None:
            self.base = sqlite3.connect(self.address, uri=True, timeout=0.0)
        rows = self.base.execute(UNDELIVERED, (time.time(),)).fetchall()
        return {number % 2**64 for (number,) in rows}  # SQLite has no unsigned numbers

    async def watch(self) -> None:
        while True:
            if self.waiting:
                try:
                    found = self.nodes()
                    for asker in [asker for asker in self.waiting if asker.node in found]:
                        self.tell(asker, COME)
                except sqlite3.Error as error:  # it is being made, or made anew: open it anew
                    log.debug("The database is not to be read now: %s", error)
                    self.base = None
            await asyncio.sleep(LOOK_SECONDS)

    def tell(self, asker: Asker, what: str) -> None:
        future = self.waiting.pop(asker, None)
        if future is not None and not future.done():
            future.set_result(what)

    async def wait(self, asker: Asker, seconds: float) -> str:
        """Whether a message has come, the time is over, or a newer question is there instead."""
        self.tell(asker, REPLACED)
        future = self.waiting[asker] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return OVER
        finally:
            if self.waiting.get(asker) is future:
                del self.waiting[asker]
