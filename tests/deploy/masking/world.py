"""Members with their keys, a study and an open session, as every site holds them."""

from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.reply import Reply, reply
from proxfl.deploy.masking.session import Ephemeral, Session, greet, open_session

STUDY = bytes(range(32))
REQUEST = bytes(reversed(range(32)))
NAMES = ("east", "north", "south")


class World(NamedTuple):
    signers: dict[str, Ed25519PrivateKey]
    members: Members
    ephemerals: list[Ephemeral]
    sessions: list[Session]

    @property
    def session(self) -> bytes:
        return self.sessions[0].digest

    def replies(self, values: np.ndarray, request: bytes = REQUEST) -> list[Reply]:
        """Everybody's reply; row i of `values` is what member i has to say."""
        signers = [self.signers[m.name] for m in self.members.each]
        each = zip(self.sessions, signers, values, strict=True)
        return [reply(session, signer, request, row, True) for session, signer, row in each]


def signers_of(names: tuple[str, ...]) -> dict[str, Ed25519PrivateKey]:
    return {name: Ed25519PrivateKey.generate() for name in names}


def members_of(signers: dict[str, Ed25519PrivateKey]) -> Members:
    return Members.of({n: key.public_key().public_bytes_raw() for n, key in signers.items()})


def world(names: tuple[str, ...] = NAMES) -> World:
    signers = signers_of(names)
    members = members_of(signers)
    ephemerals = [
        greet(signers[m.name], members, m.name, STUDY, m.name.encode().ljust(32), 0)
        for m in members.each
    ]
    hellos = [own.hello for own in ephemerals]
    sessions = [open_session(own, members, hellos, b"", 0) for own in ephemerals]
    return World(signers, members, ephemerals, sessions)
