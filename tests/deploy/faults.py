"""Faults by seed: one number says what is lost, late, doubled and damaged, and who crashes when."""

import random

from proxfl.deploy.transport.memory import Fate

KINDS = ("lost", "late", "twice", "damaged", "site crash")
LARGEST_RATE = 0.2
LONGEST_DELAY = 200.0  # virtual seconds: past the time after which a silent site is asked again
SERVER_CRASHES = 3


class ServerCrash(BaseException):
    """The server's process ends here."""


class Faults:
    """What befalls one run; printing it says which faults, how often, and the seed to replay."""

    def __init__(self, seed: int):
        self.seed, self.rng = seed, random.Random(seed)
        some = lambda: self.rng.choice((0.0, self.rng.uniform(0.0, LARGEST_RATE)))
        self.rates = {kind: some() for kind in KINDS}
        self.crashes = {
            self.rng.randrange(1, 120) for _ in range(self.rng.randint(0, SERVER_CRASHES))
        }
        self.moments = 0

    def __repr__(self) -> str:
        rates = ", ".join(f"{kind} {rate:.2f}" for kind, rate in self.rates.items() if rate)
        return f"seed {self.seed}: {rates}, server crash at {sorted(self.crashes) or 'no moment'}"

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
