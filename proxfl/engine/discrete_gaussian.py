"""Gaussian noise in whole numbers, drawn exactly: no floating point comes near it.

The sampler is that of Canonne, Kamath and Steinke (*The Discrete Gaussian for Differential
Privacy*, 2020, Algorithms 1 to 3): a draw of a discrete Laplace distribution is kept or thrown away
by coins that fall with the probability exp(-n/d), for whole n and d, made of coins with rational
ones. Bits come from SHAKE-256 of a seed, so a seed has one noise, and whoever lacks it none.

A sum of such draws is not quite one draw of a larger deviation. Kairouz, Liu and Steinke (*The
Distributed Discrete Gaussian Mechanism*, 2021) bound what that costs by 10 exp(-pi^2 s^2) for each
draw more: nothing, at the deviations s of `LEAST` steps and more that are asked for here.
"""

import hashlib
from collections.abc import Callable

import numpy as np

BLOCK = 4096  # bytes of the stream that are made at a time
LEAST = 2**20  # steps: the shortest deviation for which a sum is as good as a draw
WORD = 2**64

Below = Callable[[int], int]  # a whole number from 0 up to, and without, this one


def below_of(seed: bytes) -> Below:
    """What draws from the stream of a seed."""
    blocks, held, bits = 0, 0, 0

    def below(most: int) -> int:
        nonlocal blocks, held, bits
        width = (most - 1).bit_length()
        while True:
            while bits < width:
                block = hashlib.shake_256(seed + blocks.to_bytes(8, "little")).digest(BLOCK)
                held, blocks = held | int.from_bytes(block, "little") << bits, blocks + 1
                bits += 8 * BLOCK
            found = held & ((1 << width) - 1)
            held, bits = held >> width, bits - width
            if found < most:
                return found

    return below


def falls(below: Below, n: int, d: int) -> bool:
    """A coin that falls with the probability exp(-n/d)."""
    while n > d:
        if not falls(below, 1, 1):
            return False
        n -= d
    k = 1
    while below(d * k) < n:
        k += 1
    return k % 2 == 1


def laplace(below: Below, scale: int) -> int:
    """A whole number x with a probability in proportion to exp(-|x| / scale)."""
    while True:
        part = below(scale)
        if not falls(below, part, scale):
            continue
        whole = 0
        while falls(below, 1, 1):
            whole += 1
        size, negative = part + scale * whole, below(2)
        if size or not negative:
            return -size if negative else size


def draw(below: Below, deviation: int) -> int:
    """A whole number x with a probability in proportion to exp(-x^2 / (2 deviation^2))."""
    square, scale = deviation**2, deviation + 1
    while True:
        x = laplace(below, scale)
        if falls(below, (abs(x) * scale - square) ** 2, 2 * square * scale**2):
            return x


def noise(seed: bytes, deviation: int, count: int) -> np.ndarray:
    """So many draws, as the words of `fixed_point`."""
    below = below_of(seed)
    drawn = [draw(below, deviation) % WORD**2 for _ in range(count)]
    return np.array([divmod(x, WORD)[::-1] for x in drawn], np.uint64).reshape(count, 2)
