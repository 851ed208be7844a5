"""A session: fresh keys for every pair of members, for one study, while every process lives.

At each start a site's process makes a key and a nonce that stay in its memory, and signs them with
its lasting key: a hello. All hellos together name the session. Nothing of it can be restored from a
disk, so no pad is ever used for two messages, and keys that are gone open no recording.
"""

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from proxfl.deploy.masking.digests import SIZE, digest, message
from proxfl.deploy.masking.members import Members

FIELD = 2**255 - 19  # a public key is a number below it; others are second names of the same key


class Refused(ValueError):
    """What a member will not go on with, and why, in one sentence."""


class Hello(NamedTuple):
    """What a member says when its process starts, for one study."""

    number: int
    study: bytes
    members: bytes
    key: bytes  # X25519, of this process alone
    nonce: bytes
    data: bytes  # names the site's table to those who know the site's secret, and to nobody else
    last: int  # the highest step this site has answered
    signature: bytes = b""

    @property
    def content(self) -> bytes:
        """What is signed."""
        return message("hello", *self[:-1])


class Ephemeral(NamedTuple):
    """What a process keeps in memory, and nowhere else, and the hello it belongs to."""

    secret: X25519PrivateKey
    hello: Hello


def greet(
    signer: Ed25519PrivateKey, members: Members, name: str, study: bytes, data: bytes, last: int
) -> Ephemeral:
    secret = X25519PrivateKey.generate()
    key = secret.public_key().public_bytes_raw()
    hello = Hello(members.index(name), study, members.digest, key, os.urandom(32), data, last)
    return Ephemeral(secret, hello._replace(signature=signer.sign(hello.content)))


@dataclass(frozen=True)
class Session:
    """A member's side of a session: its digest, and a secret shared with each other member."""

    digest: bytes
    members: Members
    index: int
    secrets: Mapping[int, bytes]  # by the other member's number


def open_session(
    own: Ephemeral,
    members: Members,
    hellos: Sequence[Hello],
    known: bytes,
    last: int,
) -> Session:
    """The session of these hellos, one from each member in order; raises `Refused`.

    `known` is everybody's `data` as it was before in this study, if there was a before; `last` is
    the highest step that this site has answered by now.
    """
    check_hellos(own.hello, members, hellos)
    for other in hellos:
        place = SIZE * other.number
        if known and known[place : place + SIZE] != other.data:
            raise Refused(f"{name_of(members, other)} has other data than at the study's start.")
        if other.last > last + 1:
            raise Refused(
                f"{name_of(members, other)} has answered step {other.last}, and this site only "
                f"{last}: this site's folder is an old copy; restore the newest."
            )
    named = session_digest(own.hello.study, members.digest, hellos)
    secrets = {
        h.number: shared(own, members, h, named) for h in hellos if h.number != own.hello.number
    }
    return Session(named, members, own.hello.number, secrets)


def session_digest(study: bytes, members: bytes, hellos: Sequence[Hello]) -> bytes:
    return digest("session", study, members, *(h.content + h.signature for h in hellos))


def check_hellos(own: Hello, members: Members, hellos: Sequence[Hello]) -> None:
    """Every member once, in order, for this study, signed; this site's own as it made it."""
    if [hello.number for hello in hellos] != list(range(len(members))):
        raise Refused("A session needs one hello from each member, in their order.")
    if hellos[own.number] != own:
        raise Refused("The hello sent for this site is not the one its process made.")
    for hello in hellos:
        who = name_of(members, hello)
        if (hello.study, hello.members) != (own.study, own.members):
            raise Refused(f"The hello of {who} is for another study or other members.")
        sizes = {len(hello.nonce), len(hello.key), len(hello.data)}
        if sizes != {SIZE} or not canonical(hello.key):
            raise Refused(f"The key, the nonce or the data of {who} does not have its one form.")
        if not members.signed(hello.number, hello.signature, hello.content):
            raise Refused(f"The hello of {who} is not signed by its key.")
    if len({hello.key for hello in hellos}) != len(hellos):
        raise Refused("Two members have the same key for this session.")


def canonical(key: bytes) -> bool:
    return int.from_bytes(key, "little") < FIELD


def name_of(members: Members, hello: Hello) -> str:
    return members.each[hello.number].name


def shared(own: Ephemeral, members: Members, other: Hello, session: bytes) -> bytes:
    """The secret of two members in this session: HKDF-Extract, with the session as its salt."""
    try:
        agreed = own.secret.exchange(X25519PublicKey.from_public_bytes(other.key))
    except ValueError:  # all zero: the other's key is a point of small order
        raise Refused(f"The key of {name_of(members, other)} shares no secret.") from None
    return hmac.new(session, agreed, hashlib.sha256).digest()
