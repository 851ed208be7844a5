"""What values an option takes: words for a sentence, and a way to read a value or refuse it.

Values come from Python, TOML, JSON or the command line, so a kind gives each one form: 1 is 1.0
where a number is meant, a list is a tuple, NumPy's numbers are Python's. True is never a number.
"""

import argparse
import math
import numbers
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

BILLION = 10**9
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(NamedTuple):
    """`read` returns the value in its one form, or raises TypeError or ValueError."""

    words: str
    read: Callable[[Any], Any]
    typed: Mapping[str, Any] = NOTHING  # how argparse takes it from a command line
    in_help: str = ""  # what help says of the values, beside the meaning of the option
    by_place: bool = False  # whether it is typed without a flag
    is_path: bool = False  # a file names it from its own folder
    load: Callable[[Path], Any] | None = None  # what to put in place of a path


def demand(holds: Any) -> None:
    if not holds:
        raise ValueError


def real(value: Any) -> float:
    """Any number, infinite ones too; JSON, which has none, may write them as text."""
    if value in ("inf", "-inf"):
        return float(value)
    demand(isinstance(value, numbers.Real) and not isinstance(value, bool))
    demand(not math.isnan(value))
    return float(value)


def as_number(text: str) -> int | float | str:
    """The number that a typed text stands for, or the text, for a kind to refuse."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def number(words: str, holds: Callable[[float], bool]) -> Kind:
    def read(value):
        found = real(value)
        demand(math.isfinite(found) and holds(found))
        return found

    return Kind(words, read, {"type": as_number, "metavar": "X"})


def whole(least: int, most: int = BILLION) -> Kind:
    def read(value):
        demand(isinstance(value, numbers.Integral) and not isinstance(value, bool))
        demand(least <= int(value) <= most)
        return int(value)

    typed = {"type": as_number, "metavar": "N"}
    return Kind(f"a whole number from {least} to {most}", read, typed)


def one_of(*names: str) -> Kind:
    def read(value):
        demand(value in names)
        return value

    words, metavar = f"one of {', '.join(names)}", "|".join(names)
    few = len(metavar) <= 60
    return Kind(words, read, {"metavar": metavar} if few else NOTHING, "" if few else words)


def optional(kind: Kind) -> Kind:
    return kind._replace(read=lambda value: None if value is None else kind.read(value))


def text(value: Any) -> str:
    demand(isinstance(value, str | os.PathLike) and os.fspath(value) != "")
    return os.fspath(value)


def flag(value: Any) -> bool:
    demand(isinstance(value, bool))
    return value


def paths(value: Any) -> tuple[str, ...]:
    single = isinstance(value, str | os.PathLike)
    return (text(value),) if single else tuple(map(text, value))


def texts(value: Any) -> tuple[str, ...]:
    demand(not isinstance(value, str))
    return tuple(map(text, value))


def names(value: Any) -> str | tuple[str, ...]:
    """One text, or several different ones; a list of one is that one."""
    found = (text(value),) if isinstance(value, str) else texts(value)
    demand(0 < len(found) == len(set(found)))
    return found[0] if len(found) == 1 else found


def interval(value: Any) -> tuple[float, float]:
    lo, hi = map(real, value)
    demand(lo <= hi and lo < math.inf and hi > -math.inf)
    return lo, hi


def switched_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return 1.0 if value else None
    return POSITIVE_NUMBER.read(value)


TEXT = Kind("a text", text)
TEXTS = Kind("a list of texts", texts, {"nargs": "+", "metavar": "NAME"})
NAMES = Kind("a text, or several different ones", names, {"nargs": "+", "metavar": "COLUMN"})
FLAG = Kind("true or false", flag, {"action": argparse.BooleanOptionalAction})
PATH = Kind("a path", text, is_path=True)
PATHS = Kind("a list of paths", paths, {"nargs": "*"}, by_place=True, is_path=True)
POSITIVE_NUMBER = number("a positive number", lambda v: v > 0)
PROBABILITY = number("a number between 0 and 1", lambda v: 0 < v < 1)
NON_NEGATIVE_NUMBER = number("a non-negative number", lambda v: v >= 0)
INTERVAL = Kind(
    "two numbers, the lower first",
    interval,
    {"type": as_number, "nargs": 2, "metavar": ("LO", "HI")},
)
SWITCHED_NUMBER = Kind(
    "true, false or a positive number",
    switched_number,
    {"type": as_number, "nargs": "?", "const": True, "metavar": "X"},
)
