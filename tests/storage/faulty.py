"""A disk that fails: full, read-only or broken at the k-th operation, or without power from there.

`Disk` stands in for the module `os` in `proxfl.storage.files`, which does all of the package's
writing. It does what `os` does, counts what changes the disk, and knows what of it would survive a
loss of power: the content of a file as of its last fsync, the entries of a folder as of that
folder's.
"""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from proxfl.storage import files

FULL, READ_ONLY, BROKEN = errno.ENOSPC, errno.EROFS, errno.EIO


class PowerLoss(BaseException):
    """The machine is off from here on."""


class Disk:
    """`error` strikes at the operation of number `at`: an errno, from then on, or PowerLoss."""

    def __init__(self, root: Path, at: int = 0, error: int | None = None):
        self.root, self.at, self.error, self.done = root, at, error, 0
        self.handles: dict[int, Path] = {}
        self.held: list[int] = []  # open, so that no inode is used for another file
        self.content: dict[int, bytes] = {}  # by inode, as of the last fsync
        self.entries: dict[int, dict[str, int]] = {}
        self.folders: set[int] = set()
        self.written: set[Path] = set()  # what was put in its place
        for folder, _, names in os.walk(root):
            self.sync(Path(folder))
            for name in names:
                self.sync(Path(folder, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def step(self) -> None:
        """One operation that changes the disk, if it gets that far."""
        self.done += 1
        if self.at and self.done >= self.at:
            if self.error is None:
                raise PowerLoss
            raise OSError(self.error, os.strerror(self.error))

    def sync(self, path: Path) -> None:
        inode = path.stat().st_ino
        self.held.append(os.open(path, os.O_RDONLY))
        if path.is_dir():
            self.folders.add(inode)
            inside = {child.name: child.lstat().st_ino for child in path.iterdir()}
            for child in path.iterdir():
                if child.is_dir():
                    self.folders.add(child.lstat().st_ino)
                self.held.append(os.open(child, os.O_RDONLY))
            self.entries[inode] = inside
        else:
            self.content[inode] = path.read_bytes()

    # What `proxfl.storage.files` uses of `os`, and changes the disk.

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            self.step()
        handle = os.open(path, flags, mode)
        self.handles[handle] = Path(path)
        return handle

    def fdopen(self, handle: int, mode: str) -> Any:
        return Proxy(os.fdopen(handle, mode), self.step)

    def fsync(self, handle: int) -> None:
        self.step()
        os.fsync(handle)
        self.sync(self.handles[handle])

    def replace(self, old: Any, new: Any) -> None:
        self.step()
        os.replace(old, new)
        self.written.add(Path(new))

    def unlink(self, path: Any) -> None:
        if self.error != FULL:  # which makes room
            self.step()
        os.unlink(path)

    def rmtree(self, path: Any) -> None:
        self.step()
        shutil.rmtree(path)

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        self.step()
        os.mkdir(path, mode)

    def after_power_loss(self, entries_survive: bool) -> None:
        """Make the disk what it is once the power is back.

        Folders may have reached the disk without an fsync; contents of files have not.
        """
        top = self.root.stat().st_ino
        if entries_survive:
            for folder, _, _ in os.walk(self.root):
                path = Path(folder)
                inside = {child.name: child.lstat().st_ino for child in path.iterdir()}
                self.entries[path.stat().st_ino] = inside
                self.folders |= {c.lstat().st_ino for c in path.iterdir() if c.is_dir()}
        tree = self.surviving(top)
        self.let_go()
        for child in self.root.iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        restore(self.root, tree)

    def let_go(self) -> None:
        for handle in self.held:
            os.close(handle)
        self.held.clear()

    def surviving(self, folder: int) -> dict[str, Any]:
        return {
            name: self.surviving(inode) if inode in self.folders else self.content.get(inode, b"")
            for name, inode in self.entries.get(folder, {}).items()
        }


class Proxy:
    """A file; its first write is an operation that may fail, and so stands for all."""

    def __init__(self, file: Any, step: Callable[[], None]):
        self.file, self.step = file, step

    def write(self, data: Any) -> int:
        step, self.step = self.step, lambda: None
        step()
        return self.file.write(data)

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *error: Any) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def restore(folder: Path, tree: dict[str, Any]) -> None:
    for name, held in tree.items():
        if isinstance(held, dict):
            (folder / name).mkdir()
            restore(folder / name, held)
        else:
            (folder / name).write_bytes(held)


@contextmanager
def disk(root: Path, at: int = 0, error: int | None = None):
    """The disk under a folder, which fails at an operation."""
    made = Disk(root, at, error)
    try:
        with mock.patch.object(files, "os", made), mock.patch.object(files, "shutil", made):
            yield made
    finally:
        if error:  # without power, what is held is needed until it is back
            made.let_go()
