"""Files appear whole or not at all, and stay when the power goes.

All that the package writes is written here, by functions of `os` alone: a test that puts a faulty
disk in its place has every write under its hands.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from proxfl.errors import DiskError, InputError

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
TROUBLE = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "your share of the disk is used up; free some space",
    errno.EROFS: "the disk is read-only; make it writable",
    errno.EIO: "the disk fails; check it",
}


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Say in a sentence why a file cannot be written."""
    try:
        yield
    except DiskError:
        raise
    except OSError as error:
        if error.errno in TROUBLE:
            raise DiskError(f"{path}: {TROUBLE[error.errno]} and try again.") from error
        why = error.strerror or str(error)
        raise InputError(f"{path}: this cannot be written ({why}); choose another place.") from None


@contextmanager
def whole(path: str | os.PathLike, private: bool = False) -> Iterator[BinaryIO]:
    """Write to `path` so that a reader, or a crash, sees the old content or the new, never part.

    What is private is for its owner alone, from the first byte on.
    """
    path = Path(path)
    with written(path):
        if path.exists() and not path.is_file():  # a device, say, which would be replaced
            raise InputError(f"{path}: this is no file that can be written; choose another name.")
        name = beside(path)
        make_folder(path.parent)
        handle = os.open(name, NEW, 0o600 if private else 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
        sync_folder(path.parent)


def beside(path: Path) -> Path:
    """A hidden name in the same folder that nothing has."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def litter(folder: Path) -> list[Path]:
    """What a process left under such a name that was killed as it wrote."""
    return [path for path in folder.iterdir() if re.fullmatch(r"\..+\.[0-9a-f]{8}", path.name)]


def refuse_full(folder: Path, remedy: str = "choose another with --out") -> None:
    """Results may go to a folder that holds nothing, or is not there yet."""
    if folder.exists() and (not folder.is_dir() or set(folder.iterdir()) - set(litter(folder))):
        raise InputError(f"{folder}: the folder is not empty; {remedy}.")


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """A folder, with those missing above it; each is there for good before anything is in it."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(part, mode)
        try:
            sync_folder(part.parent)
        except OSError:  # or the next to ask for it would take it to be there for good
            with suppress(OSError):
                os.rmdir(part)
            raise


def sync_folder(folder: Path) -> None:
    """Make a rename durable: the folder's own entry must reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `path`, which may not hold anything yet, once all is there."""
    made = beside(path)
    with written(path):
        make_folder(path.parent)
        os.mkdir(made)
        try:
            yield made
            sync_folder(made)
            os.replace(made, path)
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(made)
            raise
        sync_folder(path.parent)


def write_bytes(path: str | os.PathLike, data: bytes, private: bool = False) -> None:
    with whole(path, private) as file:
        file.write(data)


def write_text(path: str | os.PathLike, text: str) -> None:
    write_bytes(path, text.encode())


def append(path: Path, data: bytes) -> None:
    """Add to a file for its owner alone, or begin it; a crash may leave part of `data` there."""
    with written(path):
        new = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        if new:
            sync_folder(path.parent)


def cut(path: Path, size: int) -> None:
    """Take away what a file has beyond so many bytes."""
    with written(path):
        handle = os.open(path, os.O_WRONLY)
        try:
            os.ftruncate(handle, size)
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """A file that may not be there."""
    with written(path), suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(path: Path) -> None:
    """A folder that may not be there, with all that is in it."""
    with written(path), suppress(FileNotFoundError):
        shutil.rmtree(path)
