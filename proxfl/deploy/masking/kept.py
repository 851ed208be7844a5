"""What the server of a masked run keeps: the sum of every step, and all replies to the last.

One file a step, whole or not there. From the sums a run comes to where it was; the replies are what
members check the next step by.
"""

from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from proxfl.deploy.masking.conductor import Exchange
from proxfl.deploy.masking.messages import replies_in, replies_payload
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.errors import InputError
from proxfl.storage.files import write_bytes


class Kept:
    """The steps of one run in one folder."""

    def __init__(self, folder: Path):
        self.folder, self.exchanges = folder, []
        while self.path(len(self.exchanges) + 1).exists():
            self.exchanges.append(self.read(self.path(len(self.exchanges) + 1)))

    def path(self, step: int) -> Path:
        return self.folder / f"{step:08d}.safetensors"

    def read(self, path: Path) -> Exchange:
        try:
            held = safetensors.numpy.load(path.read_bytes())
            words = held["words"]
            if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != 2:
                raise BadMessage("Its sum is none.")
            return Exchange(words, replies_in(held))
        except (safetensors.SafetensorError, KeyError, BadMessage):
            raise InputError(f"{path}: this is no step of a masked run; restore it.") from None

    def add(self, exchange: Exchange) -> None:
        """Keep a step; the replies to the one before are not needed any more."""
        self.exchanges.append(exchange)
        self.write(len(self.exchanges), exchange)
        if len(self.exchanges) > 1:
            shorter = self.exchanges[-2]._replace(replies=())
            self.exchanges[-2] = shorter
            self.write(len(self.exchanges) - 1, shorter)

    def write(self, step: int, exchange: Exchange) -> None:
        held = {"words": exchange.words} | replies_payload(exchange.replies)
        data = {name: np.ascontiguousarray(value) for name, value in held.items()}
        write_bytes(self.path(step), safetensors.numpy.save(data), private=True)
