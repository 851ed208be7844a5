"""JSON files that are read back: each carries a digest of its content and is of a known type.

The digest is over the content, not the bytes: spaces and the order of keys do not matter. It is
against accidents, of disks and of editors; whoever can write the file can write the digest.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxfl.errors import DamageError, InputError
from proxfl.storage.files import write_bytes
from proxfl.storage.typed import misfit

DIGEST = "digest"
ALTERED = "it does not fit its digest, so it was damaged or edited; restore it, or make it anew"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return digest(canonical.encode())


def sealed(content: Mapping[str, Any]) -> bytes:
    """A document with its digest; ValueError if a number in it is not finite."""
    text = json.dumps({**content, DIGEST: digest_of(content)}, indent=1, allow_nan=False)
    return text.encode() + b"\n"


def write_json(path: Path, content: Mapping[str, Any], private: bool = False) -> None:
    write_bytes(path, sealed(content), private)


def read_json(path: Path, kind: Any, remedy: str = "check the name") -> Any:
    """The content of a document, if it is what was written and of the type `kind`."""
    held = unsealed(read_bytes(path, remedy), path)
    demand(path, held, kind)
    return held


def unsealed(data: bytes, path: Path | str) -> dict[str, Any]:
    """The content of a document, if it fits its digest."""
    held = parsed(path, data)
    if not isinstance(held, dict) or held.pop(DIGEST, None) != digest_of(held):
        raise DamageError(f"{path}: {ALTERED}.")
    return held


def demand(path: Path | str, held: Any, kind: Any) -> None:
    """Refuse what is not of the type that the file should hold."""
    wrong = misfit(held, kind)
    if wrong:
        raise InputError(f"{path}: {wrong}; restore the file or make it anew.")


def read_bytes(path: Path, remedy: str = "check the name") -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {remedy}.") from None
    except OSError as error:
        raise InputError(f"{path}: this cannot be read ({error.strerror}); check it.") from None


def parsed(path: Path | str, data: bytes) -> Any:
    """What JSON holds, with finite numbers only."""
    try:
        return json.loads(data.decode(), parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: this cannot be read as JSON; check the file.") from None


def finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError
    return found
