"""The public keys of the sites that are let in, as the folder `sites/` has them at any moment."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from proxfl.deploy.ops.keys import public_key
from proxfl.errors import InputError

SUFFIX = ".pub"


class KeyRing:
    """Reads the folder again whenever a file in it has changed.

    A file that cannot be read as a key, such as one that is being copied, lets nobody in.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.seen: dict[str, tuple[int, int, int]] = {}
        self.held: dict[str, bytes] = {}

    def keys(self) -> Mapping[str, bytes]:
        """By site, its key in the form in which Flower reports and sends it."""
        found = {}
        for path in self.folder.glob(f"*{SUFFIX}"):
            try:
                about = path.stat()
            except OSError:  # it went while we looked
                continue
            found[path.stem] = (about.st_ino, about.st_mtime_ns, about.st_size)
        if found != self.seen:
            self.seen, self.held = found, {}
            for site in sorted(found):
                try:
                    self.held[site] = as_sent(self.folder / f"{site}{SUFFIX}")
                except InputError:
                    continue
        return self.held


def as_sent(path: Path) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return public_key(path).public_bytes(serialization.Encoding.PEM, form)


def fingerprint(key: bytes) -> str:
    """By which two people can tell over the telephone whether they have the same key."""
    return hashlib.sha256(key).hexdigest()[:32]
