"""Damage to files, by seed: what disks, editors and hands do to them, and what malice does."""

import json
import random
import zipfile
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.protocol import wire
from proxfl.storage import documents
from proxfl.storage.checkpoint import BLANK

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**18, 10**400, 1e308, -1e308, 5e-324, "", "x", "1", "nan", [], [[]],
    [1], {}, {"x": 1}, "\x1b[31m[/red]$x_{$", "../../x", "é" * 3000, [None], [["x"]],
)  # fmt: skip


def flipped(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 8))):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def swapped(data: bytes, rng: random.Random) -> bytes:
    """Two chunks change places."""
    size = max(1, len(data) // rng.randint(3, 40))
    a, b = (rng.randrange(max(1, len(data) - size)) for _ in range(2))
    made = bytearray(data)
    made[a : a + size], made[b : b + size] = data[b : b + size], data[a : a + size]
    return bytes(made)


def zeroed(data: bytes, rng: random.Random) -> bytes:
    """A block that never reached the disk."""
    start = rng.randrange(len(data))
    size = min(len(data) - start, rng.choice((1, 16, 512)))
    return data[:start] + bytes(size) + data[start + size :]


def of_lines(data: bytes, rng: random.Random) -> bytes:
    """A line deleted, doubled, or put elsewhere."""
    lines = data.splitlines(keepends=True)
    line = lines.pop(rng.randrange(len(lines)))
    for _ in range(rng.choice((0, 1, 2))):
        lines.insert(rng.randrange(len(lines) + 1), line)
    return b"".join(lines)


def empty(data: bytes, rng: random.Random) -> bytes:
    return b""


def foreign(data: bytes, rng: random.Random) -> bytes:
    return rng.choice(
        (
            *(b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 90_000, b"x = " + b"[" * 90_000),
            b"PK\x05\x06" + bytes(18),
        )
    )


ACCIDENTS = (flipped, truncated, swapped, zeroed, of_lines, empty, foreign)


def replaced(value: Any, rng: random.Random) -> Any:
    """The same with one part of another value, gone, or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: replaced(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        middle = rng.choice(([replaced(value[at], rng)], [], [value[at]] * 2))
        return [*value[:at], *middle, *value[at + 1 :]]
    return rng.choice(VALUES)


def forged_json(data: bytes, rng: random.Random) -> bytes:
    """Other content under a digest that fits it."""
    held = json.loads(data)
    held.pop(documents.DIGEST, None)
    made = replaced(held, rng)
    if not isinstance(made, dict):
        return json.dumps(made).encode()
    return json.dumps(made | {documents.DIGEST: documents.digest_of(made)}).encode()


def forged_npz(data: bytes, rng: random.Random) -> bytes:
    """Members swapped, dropped, damaged or of another kind, in an archive whose digest fits."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    a, b = rng.choice(list(held)), rng.choice(list(held))
    about = np.load(BytesIO(held.get("about.json.npy", as_npy(b"{}")))).tobytes()
    held |= rng.choice(
        (
            {a: held[b], b: held[a]},
            {a: flipped(held[a], rng)},
            {a: truncated(held[a], rng)},
            {a: held[a][:-8] + b"\x00\x00\x00\x00\x00\x00\xf8\x7f"},
            {"other.npy": held[a]},
            {"about.json.npy": as_npy(json.dumps(replaced(json.loads(about), rng)).encode())},
        )
    )
    if rng.random() < 0.1:
        del held[a]
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in held.items():
            archive.writestr(zipfile.ZipInfo(name), member)
        archive.comment = BLANK
    made = buffer.getvalue()
    return made[: -len(BLANK)] + sha256(made).hexdigest().encode()


def as_npy(data: bytes) -> bytes:
    buffer = BytesIO()
    np.lib.format.write_array(buffer, np.frombuffer(data, np.uint8))
    return buffer.getvalue()


def forged_step(data: bytes, rng: random.Random) -> bytes:
    body = flipped(data[: -wire.DIGEST], rng)
    return body + wire.digest(body)


def damage(path: Path, rng: random.Random) -> str:
    """Do something to a file, and say what."""
    kinds: list[Callable[[bytes, random.Random], bytes]] = list(ACCIDENTS)
    forgeries = {".json": forged_json, ".npz": forged_npz, ".step": forged_step}
    if path.suffix in forgeries:
        kinds += [forgeries[path.suffix]] * len(ACCIDENTS)
    if rng.random() < 0.03:
        path.unlink()
        how = rng.choice(("gone", "a folder in its place", "a link to itself"))
        if how == "a folder in its place":
            path.mkdir()
        elif how == "a link to itself":
            path.symlink_to(path)
        return how
    how, data = rng.choice(kinds), path.read_bytes()
    path.write_bytes(how(data, rng) if data else b"x")
    return how.__name__
