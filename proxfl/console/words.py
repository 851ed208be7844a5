"""Numbers and things in words, for a terminal or a page, and words from outside made harmless.

Whatever a file, a site, a server or a user's table calls something is shown through `printable`:
a terminal would obey its escape codes, a reader its bidirectional overrides, and a log its line
breaks.
"""

import csv
import datetime
import io
from collections.abc import Iterable, Sequence
from typing import Any

NAME = 60  # characters of a name that are shown
SENTENCE = 1000
SPACE = "\N{NO-BREAK SPACE}"
FORMULA = ("=", "+", "-", "@")  # with these a spreadsheet begins to compute


def printable(text: Any, most: int = SENTENCE) -> str:
    """Any text as one line: what is no visible character is spelt, what is too long is shortened.

    It is in the middle that something is left out: names tend to differ at their ends.
    """
    text = str(text)
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"
    return "".join(c if c.isprintable() or c == SPACE else spelt(c) for c in text)


def spelt(character: str) -> str:
    return character.encode("unicode_escape").decode()


def lines(text: Any) -> str:
    """A text of ours, however long, in which some words are from outside."""
    return "\n".join(printable(line, len(line)) for line in str(text).split("\n"))


def called(text: Any) -> str:
    """What something is called, short enough for a sentence or a table."""
    return printable(text, NAME)


def csv_cell(value: Any) -> Any:
    """A value for a file that people open in a spreadsheet: a text there is no formula.

    Numbers stay as they are, and so do signs that stand alone, which are common labels.
    """
    if not isinstance(value, str):
        return value
    text = printable(value, len(value))
    return f"'{text}" if text.startswith(FORMULA) and len(text) > 1 else text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as such a file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    return text.getvalue()


def count(things: Sequence[Any] | int, name: str) -> str:
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def number(value: float, digits: int = 4) -> str:
    """A number to so many digits that count; written out, unless that would be long."""
    rounded = float(f"{value:.{digits}g}") + 0.0  # so that 0 has no sign
    long = rounded and not 1e-4 <= abs(rounded) < 1e9
    return f"{rounded:.{digits}g}" if long else f"{rounded:,.12g}"


def unit_of(number: float | int) -> tuple[str, float]:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return unit, scale
    return "bytes", 1.0


def moment(seconds: float) -> str:
    """A time since 1970, for people anywhere."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def size(number: int) -> str:
    unit, scale = unit_of(number)
    return f"{number / scale:.3g}{SPACE}{unit}"
