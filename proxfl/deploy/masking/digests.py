"""One digest for everything that is named, signed or bound: SHA-256, never truncated.

A digest begins with what it is for, in 32 bytes, so that no digest can stand for another purpose.
Every field comes with its length, so that two lists of fields never give the same bytes.
"""

import hashlib

PROTOCOL = "proxfl-mask/2"
SIZE = 32  # bytes of a digest


def label(purpose: str) -> bytes:
    """What a digest or a key is for, in 32 bytes."""
    return f"{PROTOCOL} {purpose}".encode().ljust(SIZE, b"\0")


def message(purpose: str, *fields: bytes | int) -> bytes:
    """The bytes that a digest or a signature is over; whole numbers take eight, little-endian."""
    parts = [label(purpose)]
    for field in fields:
        data = field.to_bytes(8, "little") if isinstance(field, int) else field
        parts += [len(data).to_bytes(4, "little"), data]
    return b"".join(parts)


def digest(purpose: str, *fields: bytes | int) -> bytes:
    return hashlib.sha256(message(purpose, *fields)).digest()
