"""Bytes that only this package reads: the last 32 of a file are the SHA-256 of those before.

As with documents, the digest is against accidents: whoever can write the file can write it.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from proxfl.errors import DamageError
from proxfl.storage.documents import ALTERED, read_bytes
from proxfl.storage.files import write_bytes

SUFFIX = ".sealed"
SEAL = 32


def sealed(content: bytes) -> bytes:
    return content + sha256(content).digest()


def read_sealed(path: Path) -> bytes:
    """The content of a file, if it is what was written."""
    data = read_bytes(path)
    content = data[:-SEAL]
    if sealed(content) != data:
        raise DamageError(f"{path}: {ALTERED}.")
    return content


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Named arrays, for the owner of the file alone."""
    held = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_bytes(path, sealed(safetensors.numpy.save(held)), private=True)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    content = read_sealed(path)
    try:
        return safetensors.numpy.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError):  # sealed by other hands
        raise DamageError(f"{path}: it holds no arrays; restore it, or make it anew.") from None
