"""Kinds of arguments that several commands take, refused in a sentence before any work begins."""

import argparse
from pathlib import Path


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number of at least 1, got {text!r}")
    return int(text)


def folder(text: str) -> Path:
    """A folder to write to, there already or not."""
    path = Path(text)
    taken = next((p for p in (path, *path.parents) if p.exists() and not p.is_dir()), None)
    if taken is not None:
        raise argparse.ArgumentTypeError(f"{taken} is a file; name a folder")
    return path
