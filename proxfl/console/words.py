"""Numbers and things in words, for a terminal or a page."""

from collections.abc import Sequence
from typing import Any


def count(things: Sequence[Any] | int, name: str) -> str:
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def unit_of(number: float | int) -> tuple[str, float]:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return unit, scale
    return "bytes", 1.0


def size(number: int) -> str:
    unit, scale = unit_of(number)
    return f"{number / scale:.3g}\N{NO-BREAK SPACE}{unit}"
