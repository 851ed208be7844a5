"""One bad site by seed: what it makes of its own honest replies, and when."""

import random

import numpy as np

from proxfl.deploy.protocol import wire
from proxfl.engine import fixed_point

CHANGES = {
    "times": lambda a, by, rng: by * a,
    "flipped": lambda a, by, rng: -a,
    "flipped and times": lambda a, by, rng: -by * a,
    "one coordinate": lambda a, by, rng: one_coordinate(a, by, rng),
    "a constant": lambda a, by, rng: np.full_like(a, by),
}
WHEN = {
    "always": lambda number: True,
    "first": lambda number: number == 0,
    "later": lambda number: number >= 4,
    "once, later": lambda number: number == 5,
}


def one_coordinate(array, by, rng):
    changed = np.array(array)
    if changed.size:
        changed.flat[rng.randrange(changed.size)] *= by
    return changed


class HostileSite:
    """Answers as an honest worker does, and then changes some of it.

    `task` is "round", of which the uplink is changed, or a task's name. Messages of that kind are
    numbered, so that the same question asked again gets the same lie.
    """

    def __init__(self, seed: int, tasks=("round",)):
        rng = random.Random(seed)
        self.seed, self.task = seed, rng.choice(tasks)
        self.change, self.when = rng.choice(list(CHANGES)), rng.choice(list(WHEN))
        self.by = 10.0 ** rng.choice((rng.uniform(-3, 6), rng.uniform(-3, 300)))
        # Of a task's answer; empty for all.
        self.part = rng.choice(("", "value", "gradient", "hessian", "shorter"))
        self.numbers: dict[bytes, int] = {}
        self.lied = False  # by more than rounding

    def __repr__(self) -> str:
        what = f"{self.task} {self.part}".strip()
        return f"seed {self.seed}: {what}, {self.change} {self.by:.2g}, {self.when}"

    def answer(self, honest, request: bytes) -> bytes:
        asked, reply = wire.decode(request), honest(request)
        said = wire.decode(reply, finite=False)
        kind = "round" if asked.header.kind == wire.VISIT else asked.settings.get("task")
        if kind != self.task or said.header.kind not in (wire.UPLINK, wire.ANSWER):
            return reply
        number = self.numbers.setdefault(asked.digest, len(self.numbers))
        if not WHEN[self.when](number):
            return reply
        rng = random.Random(self.seed)
        lie = lambda name, a: CHANGES[self.change](a, self.by, rng)
        touched = lambda name: self.task == "round" or self.part in name
        with np.errstate(over="ignore"):
            numbers = {name: a for name, a in said.payload.items() if a.dtype.kind == "f"}
            lies = {n: np.asarray(lie(n, a), a.dtype) for n, a in numbers.items() if touched(n)}
            payload = dict(said.payload) | lies
        if not all(np.isfinite(a).all() for a in payload.values()):
            return reply  # which the wire would refuse
        far = (
            np.abs(a - numbers[n]) > 1e-3 * np.abs(numbers[n]).max(initial=0.0)
            for n, a in lies.items()
        )
        self.lied |= any(part.any() for part in far)
        return wire.encode(said.header, said.settings, payload)


class HostileMember:
    """Under masks: tells the truth but once, of which it then changes some.

    That is a question of one of these kinds, the first of it or a later one.
    """

    PARTS = {"all": slice(None), "all but the first": slice(1, None), "the last": slice(-1, None)}

    def __init__(self, seed: int, kinds: tuple[str, ...]):
        rng = random.Random(seed)
        self.seed, self.kind = seed, rng.choice(kinds)
        self.change, self.part = rng.choice(list(CHANGES)), rng.choice(list(self.PARTS))
        self.by = 10.0 ** rng.choice((rng.uniform(-3, 6), rng.uniform(-3, 24), 5.0))
        self.turn = rng.choice((0, 0, 1, rng.randrange(12)))
        self.asked = 0

    def __repr__(self) -> str:
        lie = f"{self.change} {self.by:.2g}, {self.part}"
        return f"seed {self.seed}: {self.kind} number {self.turn}, {lie}"

    def tells(self, question, honest: np.ndarray) -> np.ndarray:
        if question.kind.split()[0] != self.kind:
            return honest
        self.asked += 1
        told, where = honest.copy(), self.PARTS[self.part]
        if self.asked - 1 == self.turn:
            told[where] = CHANGES[self.change](honest[where], self.by, random.Random(self.seed))
        return told if fixed_point.fits(told).all() else honest
