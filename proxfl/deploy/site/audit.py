"""What a site was asked, what it decided and what left it, for good: a hash-chained log.

    audit.jsonl   one JSON object a line, each with the SHA-256 of the line before it
    audit.head    how many lines there are, and the SHA-256 of the last

A line is on the disk before the answer that it tells of leaves. A line that was changed, moved or
taken out does not fit the one after it; the head tells a log that was cut at its end. Who can write
both files can forge both: copy the head to where they cannot, and `proxfl federate audit --head`
holds the log to it. A line that a crash cut short stays what it is; no answer left for it.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

from proxfl.deploy.ops.permissions import locked, private_folder
from proxfl.errors import InputError
from proxfl.storage.files import append, write_bytes
from proxfl.storage.typed import misfit

FILE, HEAD, LOCK = "audit.jsonl", "audit.head", "audit.lock"
STUDY, APPROVED, TOLD, ANSWER = "study", "approved", "told", "answer"
NOISED = "noised"  # what the noise of an answer spends; the answer itself has a line of its own
NEEDED = {NOISED: {"noised", "cost"}, STUDY: {"decision"}}
LATEST = 2.0**37  # a time that a calendar still has


class Line(TypedDict):
    """What is read of a line; there may be more, for people."""

    line: int
    before: str
    time: float
    what: str
    study: str
    name: NotRequired[str]
    ask: NotRequired[str]
    decision: NotRequired[str]
    question: NotRequired[str]
    numbers: NotRequired[int]
    models: NotRequired[int]
    masked: NotRequired[bool]
    noised: NotRequired[str]
    cost: NotRequired[float]


class Head(NamedTuple):
    """The end of a log: its number of lines, and the digest of the last."""

    lines: int = 0
    digest: str = "0" * 64

    def __str__(self) -> str:
        return f"{self.lines}:{self.digest}"

    @classmethod
    def of(cls, text: str) -> "Head":
        number, _, digest = text.strip().partition(":")
        if not number.isdecimal() or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            what = "which is a number, ':' and 64 digits"
            raise InputError(f"{text[:80]!r} is no head of a log, {what}.")
        return cls(int(number), digest)


def digest_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


@dataclass
class Audit:
    """The log of one site; `enter` writes, from any of its processes."""

    folder: Path
    read: int = 0  # bytes of the file that are known here
    head: Head = field(default_factory=Head)
    torn: bytes = b""  # what a crash left after the last whole line
    answers: Counter[str] = field(default_factory=Counter)  # by study
    decisions: dict[str, str] = field(default_factory=dict)  # by study, the last
    noised: dict[str, tuple[str, float]] = field(default_factory=dict)  # study and cost, by name

    def __post_init__(self):
        wrong = list(faults(self.folder))
        if wrong:
            raise InputError(
                f"{self.folder / FILE}: {wrong[0]}; restore it with {HEAD}, or, to begin another, "
                "move both to a safe place."
            )
        self.catch_up()

    def enter(self, what: str, study: str, **about: Any) -> None:
        """One line more, on the disk for good."""
        private_folder(self.folder)
        with locked(self.folder / LOCK):
            self.catch_up()
            if self.torn:
                append(self.folder / FILE, b"\n")
                self.catch_up()
            told = {"line": self.head.lines + 1, "before": self.head.digest}
            told |= {"time": round(time.time(), 3), "what": what, "study": study, **about}
            append(self.folder / FILE, json.dumps(told).encode() + b"\n")
            self.catch_up()
            write_bytes(self.folder / HEAD, str(self.head).encode(), private=True)

    def catch_up(self) -> None:
        """Read what was written since, here or by another process."""
        path = self.folder / FILE
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self.read)
            *lines, self.torn = file.read().split(b"\n")
        for line in lines:
            self.read += len(line) + 1
            self.head = Head(self.head.lines + 1, digest_of(line))
            told = parsed(line)
            if told.get("what") == ANSWER:
                self.answers[told["study"]] += told.get("models", 1)
            if told.get("what") == NOISED:
                self.noised[told["noised"]] = told["study"], told["cost"]
            if told.get("what") == STUDY:
                self.decisions[told["study"]] = told["decision"]


def parsed(line: bytes) -> dict[str, Any]:
    """A line's content; nothing, if it was cut short or is not of our making."""
    try:
        found = json.loads(line)  # infinity, too: a model that was asked about may have held it
    except (ValueError, RecursionError):
        return {}
    sound = misfit(found, Line) is None and 0 <= found["time"] < LATEST
    return found if sound and NEEDED.get(found["what"], set()) <= found.keys() else {}


def lines_of(folder: Path) -> list[bytes]:
    path = folder / FILE
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return lines


def head_of(folder: Path) -> Head:
    """Of the log as it is."""
    lines = lines_of(folder)
    return Head(len(lines), digest_of(lines[-1])) if lines else Head()


def kept_head(folder: Path) -> Head:
    path = folder / HEAD
    return Head.of(path.read_text(errors="replace")) if path.exists() else Head()


def faults(folder: Path, head: Head | None = None) -> Iterator[str]:
    """What is wrong with a log, held to the head that is kept beside it, or to a copy of one."""
    lines, before = lines_of(folder), Head()
    try:
        head = kept_head(folder) if head is None else head
    except InputError:
        yield f"its {HEAD} cannot be read"
        return
    digests = []
    for line in lines:
        told, digest = parsed(line), digest_of(line)
        if told and (told.get("line"), told.get("before")) != (before.lines + 1, before.digest):
            yield f"line {before.lines + 1} does not fit the one before it: one of them was changed"
            return
        before = Head(before.lines + 1, digest)
        digests.append(digest)
    if len(lines) < head.lines:
        yield f"it has {len(lines)} lines where there were {head.lines}: it was cut"
    elif head.lines and digests[head.lines - 1] != head.digest:
        yield f"line {head.lines} is not the one that the head tells of: it was changed"
    elif not head.lines and len(lines) > 2:  # more than a crash before the first head leaves
        yield f"its {HEAD} is missing"
