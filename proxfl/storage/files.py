"""Files appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Write to `path` so that a reader, or a crash, sees the old content or the new, never part."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~current_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename durable: the folder's own entry must reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `path`, which may not hold anything yet, once all is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield made
        made.chmod(0o777 & ~current_umask())
        if path.is_dir():
            path.rmdir()
        made.rename(path)
    except BaseException:
        shutil.rmtree(made)
        raise
    sync_folder(path.parent)


def write_text(path: str | os.PathLike, text: str) -> None:
    with whole(path) as file:
        file.write(text.encode())
