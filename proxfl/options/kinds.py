"""What values an option takes: words for a sentence, and a way to read a value or refuse it.

Values come from Python, TOML, JSON or the command line, so a rule gives each one form: 1 is 1.0
where a number is meant, a list is a tuple, NumPy's numbers are Python's. True is never a number.
"""

import math
import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """`read` returns the value in its one form, or raises TypeError or ValueError."""

    words: str
    read: Callable[[Any], Any]


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


def number(words: str, holds: Callable[[float], bool]) -> Rule:
    def read(value):
        found = real(value)
        demand(math.isfinite(found) and holds(found))
        return found

    return Rule(words, read)


def whole(words: str, least: int) -> Rule:
    def read(value):
        demand(isinstance(value, numbers.Integral) and not isinstance(value, bool))
        demand(int(value) >= least)
        return int(value)

    return Rule(words, read)


def one_of(*names: str) -> Rule:
    def read(value):
        demand(value in names)
        return value

    return Rule(f"one of {', '.join(names)}", read)


def optional(rule: Rule) -> Rule:
    return Rule(rule.words, lambda value: None if value is None else rule.read(value))


def text(value: Any) -> str:
    demand(isinstance(value, str | os.PathLike) and os.fspath(value) != "")
    return os.fspath(value)


def flag(value: Any) -> bool:
    demand(isinstance(value, bool))
    return value


def paths(value: Any) -> tuple[str, ...]:
    single = isinstance(value, str | os.PathLike)
    return (text(value),) if single else tuple(map(text, value))


def interval(value: Any) -> tuple[float, float]:
    lo, hi = map(real, value)
    demand(lo <= hi and lo < math.inf and hi > -math.inf)
    return lo, hi


def radius(value: Any) -> float | None:
    if isinstance(value, bool):
        return 1.0 if value else None
    return POSITIVE.read(value)


def file_or_table(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def either(value):
        if isinstance(value, Mapping):
            return {text(name): read(held) for name, held in value.items()}
        return text(value)

    return either


def group_name(value: Any) -> str:
    demand(isinstance(value, str))
    return value


TEXT = Rule("a text", text)
FLAG = Rule("true or false", flag)
PATHS = Rule("a list of paths", paths)
POSITIVE = number("a positive number", lambda v: v > 0)
NON_NEGATIVE = number("a non-negative number", lambda v: v >= 0)
WHOLE = whole("a whole number of at least 1", 1)
SEVERAL = whole("a whole number of at least 2", 2)
SHARE = number("a number between 0 and 1", lambda v: 0 < v < 1)
SEED = whole("a whole number of at least 0", 0)
INTERVAL = Rule("two numbers, the lower first", interval)
RADIUS = Rule("true, false or a positive number", radius)
GROUPS = Rule("a path, or a table of group names by feature", file_or_table(group_name))
WEIGHTS = Rule(
    "a path, or a table of non-negative numbers by feature", file_or_table(NON_NEGATIVE.read)
)
