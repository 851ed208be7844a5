"""Who waits for messages, and who of them has some: one look for all sites.

A site asks for messages all the time. Were each question passed on, the SuperLink would do little
else. So a question waits here, and one look finds out for all of them, many times in a second.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

from proxfl.deploy.transport.flower.letters import Letters

COME, OVER, REPLACED = "come", "over", "replaced"


class Asker(NamedTuple):
    """Who asks, by its key, and for the messages of which node: that it is its own is not known."""

    key: bytes
    node: int


class Mail:
    """`wait` for a message; `watch` must run meanwhile."""

    def __init__(self, database: Path):
        self.letters = Letters(database)
        self.waiting: dict[Asker, asyncio.Future[str]] = {}
        self.newcomers = False  # whose messages may have been there before them

    async def watch(self) -> None:
        while True:
            if self.waiting and (self.letters.changed() or self.newcomers):
                self.newcomers, found = False, self.letters.nodes()
                for asker in [asker for asker in self.waiting if asker.node in found]:
                    self.tell(asker, COME)
                    self.letters.stir()
            await asyncio.sleep(self.letters.pause)

    def tell(self, asker: Asker, what: str) -> None:
        future = self.waiting.pop(asker, None)
        if future is not None and not future.done():
            future.set_result(what)

    async def wait(self, asker: Asker, seconds: float) -> str:
        """Whether a message has come, the time is over, or a newer question is there instead."""
        self.tell(asker, REPLACED)
        future = self.waiting[asker] = asyncio.get_running_loop().create_future()
        self.newcomers = True
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return OVER
        finally:
            if self.waiting.get(asker) is future:
                del self.waiting[asker]
