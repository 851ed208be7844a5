"""A member's reply under pads that cancel in the sum of all, and that sum.

Members i < j share a pad for every request; i adds it and j subtracts it. Whoever lacks the secrets
of two members sees, of both their replies, nothing but the sum: see `docs/masking.md`.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from proxfl.deploy.masking.digests import message
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.session import Refused, Session
from proxfl.engine import fixed_point

BYTES = 16  # of one number


class Reply(NamedTuple):
    """A member's numbers under its pads, and a flag behind them, likewise."""

    number: int
    masked: bytes
    signature: bytes


def reply(
    session: Session,
    signer: Ed25519PrivateKey,
    request: bytes,
    values: np.ndarray,
    sound: bool,
    noise: np.ndarray | None = None,
) -> Reply:
    """The reply to the request of this digest: a site's sums, one number after the other.

    Noise comes as words, and is added to the numbers as they are encoded.

    What is not `sound`, or cannot be encoded, is sent as random numbers with the flag set: its
    length is the same, and only the number of flags is seen, in the sum of all.
    """
    sound = bool(sound and np.all(fixed_point.fits(values)))
    content = fixed_point.encode(values) if sound else random_words(len(values))
    content = content if noise is None else fixed_point.add(content, noise)
    words = np.concatenate([content, fixed_point.encode(np.array([0.0 if sound else 1.0]))])
    for other, secret in session.secrets.items():
        pad = pad_of(secret, request, session.index, other, len(words))
        words = fixed_point.add(words, pad if session.index < other else fixed_point.negate(pad))
    masked = words.astype("<u8").tobytes()
    signature = signer.sign(signed_content(session.digest, request, session.index, masked))
    return Reply(session.index, masked, signature)


def random_words(count: int) -> np.ndarray:
    return words_in(os.urandom(BYTES * count))


def words_in(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, 2)


def pad_of(secret: bytes, request: bytes, one: int, other: int, count: int) -> np.ndarray:
    """The pad of two members for one request; their numbers are bound to it, lower first."""
    low, high = sorted((one, other))
    info = message("pad", request, low, high)
    key = HKDFExpand(SHA256(), 32, info).derive(secret)
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return words_in(stream.update(bytes(BYTES * count)))


def signed_content(session: bytes, request: bytes, index: int, masked: bytes) -> bytes:
    return message("reply", session, request, index, hashlib.sha256(masked).digest())


def total(
    session: bytes, members: Members, request: bytes, replies: Sequence[Reply], count: int
) -> np.ndarray:
    """The sum of all members' numbers, as words; raises `Refused`, naming whose reply is wrong.

    Who adds the replies need not be a member: it takes no secret.
    """
    if [r.number for r in replies] != list(range(len(members))):
        raise Refused("A sum needs one reply from each member, in their order.")
    words = np.zeros((count + 1, 2), np.uint64)
    for r in replies:
        content = signed_content(session, request, r.number, r.masked)
        if len(r.masked) != BYTES * (count + 1):
            raise Refused(f"The reply of {members.each[r.number].name} has another length.")
        if not members.signed(r.number, r.signature, content):
            raise Refused(f"The reply of {members.each[r.number].name} is not signed by its key.")
        words = fixed_point.add(words, words_in(r.masked))
    flags = fixed_point.decode(words[-1:]).item()
    if flags:
        raise Refused(f"{flags:g} members have set their flag: the exchange shows nothing.")
    return words[:-1]
