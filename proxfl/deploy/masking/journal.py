"""What the server of a masked run keeps: the sum of every step, and all replies to the last.

One file a step, whole or not there. From the sums a run comes to where it was; the replies are what
members check the next step by.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.masking.conductor import SummedStep
from proxfl.deploy.masking.messages import replies_in, replies_payload
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.errors import InputError
from proxfl.storage.sealed import SUFFIX, read_arrays, write_arrays


class Journal(Sequence[SummedStep]):
    """The steps of one run in one folder, read when asked for; the last is held in memory."""

    def __init__(self, folder: Path):
        self.folder, self.number = folder, 0
        self.last: SummedStep | None = None
        while self.path(self.number + 1).exists():
            self.number += 1
        if self.number:
            self.last = self.read(self.path(self.number))

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        step = range(1, self.number + 1)[place]
        return self.last if step == self.number else self.read(self.path(step))

    def path(self, step: int) -> Path:
        return self.folder / f"{step:08d}{SUFFIX}"

    def read(self, path: Path) -> SummedStep:
        held = read_arrays(path)
        try:
            words = held["words"]
            if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != 2:
                raise BadMessage("Its sum is none.")
            return SummedStep(words, replies_in(held))
        except (KeyError, BadMessage):
            raise InputError(f"{path}: this is no step of a masked run; restore it.") from None

    def add(self, exchange: SummedStep) -> None:
        """Keep a step; the replies to the one before are not needed any more."""
        self.write(self.number + 1, exchange)
        before, self.last, self.number = self.last, exchange, self.number + 1
        if before is not None:
            self.write(self.number - 1, before._replace(replies=()))

    def write(self, step: int, exchange: SummedStep) -> None:
        held = {"words": exchange.words} | replies_payload(exchange.replies)
        write_arrays(self.path(step), {name: np.asarray(value) for name, value in held.items()})
