"""TOML, of files that people write, and of texts that others send."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proxfl.errors import InputError

BITS = 64  # of whole numbers, as TOML has them; Python takes longer ones, and cannot print them
DEEPEST = 50  # parts of a key: memory for it grows by their square
PART = r"(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')"
TOO_DEEP = re.compile(rf"(?<![\w-]){PART}(?:[ \t]*\.[ \t]*{PART}){{{DEEPEST}}}")


def parsed(text: str) -> dict[str, Any]:
    """What a text holds; TOMLDecodeError if it is no TOML, or of a size that nobody means."""
    if TOO_DEEP.search(text):
        raise tomllib.TOMLDecodeError(f"a key has more than {DEEPEST} parts")
    try:
        held = tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # of Python, at a number of thousands of digits
        raise tomllib.TOMLDecodeError("a number is too long") from None
    if any(isinstance(one, int) and one.bit_length() >= BITS for one in values_in(held)):
        raise tomllib.TOMLDecodeError("a number is too long")
    return held


def values_in(held: Any) -> Iterable[Any]:
    """All that is in tables and lists, however deep."""
    if isinstance(held, dict | list):
        for one in held.values() if isinstance(held, dict) else held:
            yield from values_in(one)
    else:
        yield held


def read_toml(path: Path, what: str = "file") -> dict[str, Any]:
    try:
        return parsed(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{path}: the {what} cannot be read; check the name.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the text is not UTF-8; save it so.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: this is not TOML: {error}; correct that line.") from None
