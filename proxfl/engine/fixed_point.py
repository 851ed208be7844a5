"""Real numbers as integers modulo 2^128, so that a sum is exact and does not depend on its order.

A number is a multiple of 2^-40, in two's complement, as two words of 64 bits on a last axis, the
low one first. Arrays are NumPy's or JAX's, in double precision.
"""

from typing import Any

STEP = 2.0**-40
LIMIT = 2.0**80  # up to 2^120 steps: 128 numbers of this size cannot wrap around
WORD = 2.0**64


def fits(values: Any) -> Any:
    """Whether each number is one that can be encoded."""
    return abs(values) <= LIMIT  # not a number is not


def encode(values: Any) -> Any:
    """The nearest multiples of the step; ties go to the even one."""
    xp = values.__array_namespace__()
    steps = xp.abs(xp.round(values / STEP))
    # The words of the absolute value are exact, those of a negative one need not be as floats.
    high = xp.floor(steps / WORD)
    words = xp.stack([steps - high * WORD, high], axis=-1).astype(xp.uint64)
    return xp.where((values < 0)[..., None], negate(words), words)


def decode(words: Any) -> Any:
    """The numbers that the integers stand for, up to the rounding of double precision."""
    xp = words.__array_namespace__()
    negative = words[..., 1] >> 63 == 1
    size = xp.where(negative[..., None], negate(words), words).astype(xp.float64)
    found = (size[..., 1] * WORD + size[..., 0]) * STEP
    return xp.where(negative, -found, found)


def add(one: Any, other: Any) -> Any:
    xp = one.__array_namespace__()
    low = one[..., 0] + other[..., 0]
    carry = (low < one[..., 0]).astype(xp.uint64)
    return xp.stack([low, one[..., 1] + other[..., 1] + carry], axis=-1)


def negate(words: Any) -> Any:
    xp = words.__array_namespace__()
    low, high = ~words[..., 0] + 1, ~words[..., 1]
    return xp.stack([low, high + (low == 0).astype(xp.uint64)], axis=-1)
