"""Which files are meant: a file is a site, a folder is all the data in it."""

import os
from collections.abc import Iterable
from pathlib import Path

from proxfl.console.log import logger
from proxfl.errors import InputError
from proxfl.tables.formats import FRAMES, InMemory, Source

log = logger("proxfl.tables")

LIBSVM = (".svm", ".libsvm", ".txt")


def files_in(paths: Iterable[str | os.PathLike]) -> list[Path]:
    """The files meant, in order; of a folder those that are data, and others with a word.

    Hidden files and folders within folders are passed over.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(p for p in path.glob("[!.]*") if p.is_file()) if path.is_dir() else [path]
        if path.is_dir():
            for other in (p for p in inside if not is_data(p)):
                log.warning("%s is passed over: it is no data file.", other)
            inside = [p for p in inside if is_data(p)]
        if not inside:
            raise InputError(f"{path}: there is no file in this folder; put one there per site.")
        found += inside
    if not found:
        raise InputError("There are no sites; name at least one file or folder.")
    by_name: dict[str, Path] = {}
    for path in found:
        other = by_name.setdefault(path.stem, path)
        if other is not path:
            raise InputError(f"{path}: the site {path.stem!r} is already {other}; rename one file.")
    return found


def is_data(path: Path) -> bool:
    """Whether the name is that of a file with data; a README.txt is none."""
    return path.suffix.lower() in (*FRAMES, *LIBSVM) and path.stem.lower() != "readme"


def is_libsvm(path: Path) -> bool:
    """Whether a file is LIBSVM, or a folder has no other data; its target needs no name."""
    files = [p for p in path.glob("[!.]*") if is_data(p)] if path.is_dir() else [path]
    return bool(files) and all(file.suffix.lower() in LIBSVM for file in files)


def refuse_unreadable(path: Source) -> None:
    if isinstance(path, InMemory):
        return
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the name.")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; name one file in it.")
    if path.suffix.lower() not in (*FRAMES, *LIBSVM):
        raise InputError(
            f"{path}: the name must end in {', '.join(FRAMES)}, or for LIBSVM in "
            f"{', '.join(LIBSVM)}; rename or convert the file."
        )
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; leave it out or fill it.")


def refuse_without_names(path: Source) -> None:
    """Refuse what has no columns with names, or cannot be read at all."""
    refuse_unreadable(path)
    if isinstance(path, Path) and path.suffix.lower() in LIBSVM:
        raise InputError(f"{path}: LIBSVM has no columns with names; use it without a schema.")
