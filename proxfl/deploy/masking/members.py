"""Who takes part: names with the keys they sign by, known to all before anything is asked.

A server that could choose the members could choose its own. So a person at each site compares the
digest of the list, as words, with people at others, over a way that the server does not control.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from proxfl.deploy.masking.digests import digest
from proxfl.deploy.protocol.study import FEWEST_MASKED
from proxfl.errors import InputError

FEWEST, MOST = FEWEST_MASKED, 64  # pads are made for every pair
CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aiou"


@dataclass(frozen=True)
class Member:
    """A site's name and the public half of its Ed25519 key, which it uses for nothing else."""

    name: str
    key: bytes


@dataclass(frozen=True)
class Members:
    """The members of a federation, in the order of their names, which numbers them."""

    each: tuple[Member, ...]

    def __post_init__(self):
        names, keys = [m.name for m in self.each], [m.key for m in self.each]
        if not FEWEST <= len(self.each) <= MOST:
            raise InputError(f"masking needs {FEWEST} to {MOST} sites, got {len(self.each)}.")
        if names != sorted(names) or len(set(names)) != len(names):
            raise InputError("members must have distinct names, in order; write the list anew.")
        if len(set(keys)) != len(keys) or any(len(key) != 32 for key in keys):
            raise InputError("members must have distinct keys of 32 bytes; write the list anew.")

    @classmethod
    def of(cls, keys: dict[str, bytes]) -> "Members":
        return cls(tuple(Member(name, keys[name]) for name in sorted(keys)))

    def __len__(self) -> int:
        return len(self.each)

    @cached_property
    def digest(self) -> bytes:
        fields = (field for m in self.each for field in (m.name.encode(), m.key))
        return digest("members", *fields)

    @property
    def words(self) -> str:
        """The digest's first 192 bits as twelve words to read to one another."""
        return " ".join(spoken(self.digest[:24]))

    def index(self, name: str) -> int:
        return [m.name for m in self.each].index(name)

    def signed(self, index: int, signature: bytes, content: bytes) -> bool:
        """Whether the member of that number signed the content."""
        try:
            Ed25519PublicKey.from_public_bytes(self.each[index].key).verify(signature, content)
        except InvalidSignature:
            return False
        return True


def signer_of(secret: bytes) -> Ed25519PrivateKey:
    """A member's key, from the 32 random bytes that it keeps."""
    return Ed25519PrivateKey.from_private_bytes(secret)


def spoken(data: bytes) -> Sequence[str]:
    """Sixteen bits to a word that can be said aloud: consonant, vowel, twice, and a consonant.

    These are proquints (Wilkerson 2009), which need no list of words.
    """

    def word(bits: int) -> str:
        parts = [(12, CONSONANTS), (10, VOWELS), (6, CONSONANTS), (4, VOWELS), (0, CONSONANTS)]
        return "".join(letters[(bits >> shift) % len(letters)] for shift, letters in parts)

    return [word(int.from_bytes(data[i : i + 2], "big")) for i in range(0, len(data), 2)]
