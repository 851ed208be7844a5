"""What a member has answered, and the sums it has seen, on its disk before any reply leaves.

One file, to which entries are added: for every request its step, session and question, and the sum
of the step before. From the sums alone a run can be followed anew (`replica.py`). Keys are never
here. An entry that a crash cut short was of a reply that never left; so that no damaged length is
taken for one, and all that follows for the rest of it, an entry's length has a digest of its own.
"""

import hashlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from proxfl.deploy.masking.digests import SIZE, label
from proxfl.errors import InputError
from proxfl.storage.files import append, cut

FILE = "transcript"
LENGTH = 8  # bytes that say how long an entry is
HEAD = LENGTH + SIZE


class Entry(NamedTuple):
    """A request that was answered, and the sum, as words, that the step before it came to."""

    step: int
    length: int  # how many numbers the reply has
    session: bytes
    tip: bytes
    question: bytes
    before: bytes
    data: bytes  # the names of all members' tables, one after the other
    own: bytes = b""  # the question that was answered, where what was asked is its neighbour

    @property
    def sealed(self) -> bytes:
        fields = [str(self.step).encode(), str(self.length).encode(), *self[2:]]
        body = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
        body = head_of(len(body)) + body
        return body + hashlib.sha256(label("entry") + body).digest()


class Transcript:
    """The entries of one study at one member, of which the last alone is held in memory."""

    def __init__(self, folder: Path):
        self.path = folder / FILE
        self.latest: Entry | None = None
        self.sessions: set[bytes] = set()  # those in which the last step was answered
        self.size = 0  # of the entries that are noted: a failing disk may have added to them
        if self.path.exists():
            for entry in self.entries(self.path.stat().st_size):
                self.note(entry)
        self.drop_rest()

    def entries(self, left: int) -> Iterator[Entry]:
        """The whole ones in so many bytes of the file, one after the other."""
        with self.path.open("rb") as file:
            for number in count(1):
                head = file.read(HEAD)
                if len(head) < HEAD:
                    return
                size = int.from_bytes(head[:LENGTH], "little")
                sound = head == head_of(size)
                left -= HEAD + size + SIZE
                if sound and left < 0:
                    return
                body, seal = (file.read(size), file.read(SIZE)) if sound else (b"", b"")
                if hashlib.sha256(label("entry") + head + body).digest() != seal:
                    raise InputError(f"{self.path}: entry {number} is damaged; restore it.")
                yield parsed(body)

    @property
    def last(self) -> int:
        """The highest step that was answered."""
        return self.latest.step if self.latest else 0

    def sums(self) -> Iterator[bytes]:
        """Those of all steps but the last, in order, read one by one."""
        seen = 1
        for entry in self.entries(self.size) if self.size else ():
            if entry.step > seen:
                seen = entry.step
                yield entry.before

    def add(self, entry: Entry) -> None:
        self.drop_rest()
        append(self.path, entry.sealed)
        self.note(entry)

    def note(self, entry: Entry) -> None:
        if entry.step != self.last:
            self.sessions = set()
        self.sessions.add(entry.session)
        self.latest, self.size = entry, self.size + len(entry.sealed)

    def drop_rest(self) -> None:
        """Take away an entry, whole or torn, that was not noted: its reply never left."""
        if self.path.exists() and self.path.stat().st_size > self.size:
            cut(self.path, self.size)


def head_of(size: int) -> bytes:
    length = size.to_bytes(LENGTH, "little")
    return length + hashlib.sha256(label("entry length") + length).digest()


def parsed(body: bytes) -> Entry:
    fields, place = [], 0
    while place < len(body):
        end = place + 8 + int.from_bytes(body[place : place + 8], "little")
        fields.append(body[place + 8 : end])
        place = end
    return Entry(int(fields[0]), int(fields[1]), *fields[2:])
