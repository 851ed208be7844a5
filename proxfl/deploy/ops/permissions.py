"""Folders and files for their owner alone."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxfl.storage.files import make_folder, written


def private_folder(folder: Path) -> Path:
    """Make a folder, with those missing above it, or take an old one, for its owner alone."""
    with written(folder):
        make_folder(folder, 0o700)
        folder.chmod(0o700)
    return folder


def lock(folder: Path, name: str = "lock") -> int:
    """Claim a folder for this process until it ends, however it ends; `name` says for what."""
    with written(folder / name):
        handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RuntimeError(f"Another process already serves {folder}; stop it first.") from None
    return handle


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for all others who hold this file, and hold it."""
    with written(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
