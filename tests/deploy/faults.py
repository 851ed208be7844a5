"""Faults by seed: one number says what is lost, late, doubled and damaged, and who crashes when."""

import random
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.memory import Fate, MemoryTransport
from proxfl.errors import DiskError
from proxfl.storage import files
from tests.storage.faulty import BROKEN, FULL, READ_ONLY, Disk, PowerLoss

KINDS = ("lost", "late", "twice", "damaged", "site crash", "disk")
LARGEST_RATE = 0.2
LONGEST_DELAY = 200.0  # virtual seconds: past the time after which a silent site is asked again
SERVER_CRASHES, OUTAGES = 3, 2
OPERATIONS = 10  # on the disk, about, for an answer of a site
LIVES = 30


class ServerCrash(BaseException):
    """The server's process ends here."""


class Faults:
    """What befalls one run; printing it says which faults, how often, and the seed to replay."""

    def __init__(self, seed: int):
        self.seed, self.rng = seed, random.Random(seed)
        some = lambda: self.rng.choice((0.0, self.rng.uniform(0.0, LARGEST_RATE)))
        self.rates = {kind: some() for kind in KINDS}
        self.rates["disk"] /= OPERATIONS
        self.crashes = self.numbers(SERVER_CRASHES, 60)
        self.outages = self.numbers(OUTAGES, 150)
        self.moments = self.operations = 0

    def numbers(self, most: int, before: int) -> set[int]:
        return {self.rng.randrange(1, before) for _ in range(self.rng.randint(0, most))}

    def __repr__(self) -> str:
        rates = ", ".join(f"{kind} {rate:.2f}" for kind, rate in self.rates.items() if rate)
        at = lambda moments: sorted(moments) or "no moment"
        return (
            f"seed {self.seed}: {rates}, server crash at {at(self.crashes)}, "
            f"no power at {at(self.outages)}"
        )

    def end(self) -> None:
        """Nothing goes wrong from here on."""
        self.rates, self.crashes, self.outages = dict.fromkeys(KINDS, 0.0), set(), set()

    def happens(self, kind: str) -> bool:
        return self.rng.random() < self.rates[kind]

    def fate(self, way: str, site: str, frame: bytes) -> Fate:
        if self.happens("lost"):
            return Fate(())
        copies = [frame] * (2 if self.happens("twice") else 1)
        if self.happens("damaged"):
            copies[0] = self.damaged(frame)
        delay = lambda: self.rng.uniform(0.0, LONGEST_DELAY) if self.happens("late") else 0.0
        return Fate(tuple((delay(), copy) for copy in copies), self.happens("site crash"))

    def damaged(self, frame: bytes) -> bytes:
        at = self.rng.randrange(len(frame))
        if self.rng.random() < 0.5:
            return frame[:at]
        return frame[:at] + bytes([frame[at] ^ 1 << self.rng.randrange(8)]) + frame[at + 1 :]

    def moment(self) -> None:
        """The server touches the network, and may not live through it."""
        self.moments += 1
        if self.moments in self.crashes:
            raise ServerCrash

    def operation(self) -> None:
        """Somebody changes the disk, which may refuse, or the power goes."""
        self.operations += 1
        if self.operations in self.outages:
            raise PowerLoss
        if self.happens("disk"):
            raise OSError(self.rng.choice((FULL, READ_ONLY, BROKEN)), "by a seed")


class FaultyDisk(Disk):
    """The disk under a folder, to which happens what the faults say."""

    def __init__(self, root: Path, faults: Faults):
        self.faults = faults
        super().__init__(root)

    def step(self) -> None:
        self.faults.operation()

    @contextmanager
    def in_place(self):
        with mock.patch.object(files, "os", self), mock.patch.object(files, "shutil", self):
            yield self
        self.let_go()


def until_the_end(
    faults: Faults, transport: MemoryTransport, folder: Path, life: Callable[[int], Any]
) -> bool:
    """Life after life of a server, until one ends well; whether there was a documented stop.

    After one the faults end too, as when somebody has mended what was wrong.
    """
    transport.fate, transport.moment, stopped = faults.fate, faults.moment, False
    for number in range(LIVES):
        with FaultyDisk(folder, faults).in_place() as disk:
            try:
                life(number)
                return stopped
            except ServerCrash:
                pass
            except PowerLoss:
                disk.after_power_loss(entries_survive=faults.rng.random() < 0.5)
                for site in transport.sites.values():
                    site.restart()
            except (TooFewSites, DiskError) as stop:
                assert "Nothing is lost" in str(stop) or "and try again." in str(stop)
                faults.end()
                stopped = True
    raise AssertionError(f"The run does not end: {faults}")
