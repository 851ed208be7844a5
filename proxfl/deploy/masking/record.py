"""What a member has answered, and the sums it has seen, on its disk before any reply leaves.

One file, to which entries are added: for every request its step, session and question, and the sum
of the step before. From the sums alone a run can be followed anew (`replica.py`). Keys are never
here. An entry that a crash cut short was of a reply that never left.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from proxfl.deploy.masking.digests import SIZE, label
from proxfl.errors import InputError
from proxfl.storage.files import append, write_bytes

FILE = "transcript"


class Entry(NamedTuple):
    """A request that was answered, and the sum, as words, that the step before it came to."""

    step: int
    length: int  # how many numbers the reply has
    session: bytes
    tip: bytes
    question: bytes
    before: bytes
    data: bytes  # the names of all members' tables, one after the other

    @property
    def sealed(self) -> bytes:
        fields = [str(self.step).encode(), str(self.length).encode(), *self[2:]]
        body = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
        body = len(body).to_bytes(8, "little") + body
        return body + hashlib.sha256(label("entry") + body).digest()


class Record:
    """The entries of one study at one member."""

    def __init__(self, folder: Path):
        self.path = folder / FILE
        data = self.path.read_bytes() if self.path.exists() else b""
        self.entries, whole = self.read(data)
        if whole < len(data):
            write_bytes(self.path, data[:whole], private=True)

    def read(self, data: bytes) -> tuple[list[Entry], int]:
        """The entries in the file, and where the last whole one ends."""
        found, place = [], 0
        while place + 8 <= len(data):
            end = place + 8 + int.from_bytes(data[place : place + 8], "little") + SIZE
            if end > len(data):
                break
            body, seal = data[place : end - SIZE], data[end - SIZE : end]
            if hashlib.sha256(label("entry") + body).digest() != seal:
                raise InputError(f"{self.path}: entry {len(found) + 1} is damaged; restore it.")
            found.append(parsed(body[8:]))
            place = end
        return found, place

    @property
    def last(self) -> int:
        """The highest step that was answered."""
        return self.entries[-1].step if self.entries else 0

    @property
    def sums(self) -> list[bytes]:
        """Those of all steps but the last, in order."""
        by_step = {entry.step: entry.before for entry in self.entries if entry.step > 1}
        return [by_step[step] for step in sorted(by_step)]

    @property
    def sessions(self) -> set[bytes]:
        """Those in which the last step was answered."""
        return {entry.session for entry in self.entries if entry.step == self.last}

    def add(self, entry: Entry) -> None:
        append(self.path, entry.sealed)
        self.entries.append(entry)


def parsed(body: bytes) -> Entry:
    fields, place = [], 0
    while place < len(body):
        end = place + 8 + int.from_bytes(body[place : place + 8], "little")
        fields.append(body[place + 8 : end])
        place = end
    return Entry(int(fields[0]), int(fields[1]), *fields[2:])
