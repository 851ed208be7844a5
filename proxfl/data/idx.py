"""IDX, the format of MNIST's files: a short big-endian header, then the numbers, row by row."""

import math

import numpy as np

from proxfl.data.federated import demand

BYTES = b"\0\0\x08"  # two zeros, then the code of unsigned bytes; the rank follows


def parse(data: bytes, name: str) -> np.ndarray:
    """The array of unsigned bytes in an IDX file; `name` is for the error message."""
    demand(
        len(data) >= 4 and data[:3] == BYTES,
        f"{name} is not an IDX file of unsigned bytes; get it again.",
    )
    start = 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4))
    demand(
        len(data) == start + math.prod(shape),
        f"{name} holds {len(data)} bytes, which its header does not fit; get it again.",
    )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
