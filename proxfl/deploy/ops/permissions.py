"""Folders and files for their owner alone."""

import fcntl
import os
from pathlib import Path

from proxfl.storage.files import sync_folder


def private_folder(folder: Path) -> Path:
    """Make a folder, with those missing above it, or take an old one, for its owner alone."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Create a file with its permissions from the first byte on; never overwrite one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)  # whatever the umask
        file.write(data)
        file.flush()
        os.fsync(handle)
    sync_folder(path.parent)


def lock(folder: Path, name: str = "lock") -> int:
    """Claim a folder for this process until it ends, however it ends; `name` says for what."""
    handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RuntimeError(f"Another process already serves {folder}; stop it first.") from None
    return handle
