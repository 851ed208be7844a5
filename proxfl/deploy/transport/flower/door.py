"""Who may stand in the door: how many, and for how long, before anyone is known and after.

A visitor is unknown until a request of it was signed by a key that is let in. Unknown ones are few
and soon gone. Where there is no room the oldest of the address that takes most of it makes way, so
that who comes from elsewhere, or is quick, gets in whoever else stands there.
"""

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Limits(NamedTuple):
    """In seconds, bytes and connections."""

    handshake: float = 5.0  # until TLS is agreed on
    header: float = 5.0  # until a request's header is there
    idle: float = 30.0  # between two requests of one who is known
    farewell: float = 2.0  # until the other side has taken leave
    body: float = 30.0  # until a body is there, and longer by its size:
    slowest: float = 2**14  # bytes of a body in a second
    largest: int = 2**24  # bytes of a body; Flower cuts arrays into objects of five megabytes
    largest_header: int = 2**14
    unknown: int = 256  # connections of all who are not known
    per_address: int = 32  # of them, from one address
    grace: float = 1.0  # for which an unknown one is not sent away for another of its address
    per_site: int = 16
    without_keys: int = 2048  # in a deployment in which nobody is known


@dataclass(eq=False)
class Visitor:
    """A connection; `dismiss` ends it."""

    address: str
    dismiss: Callable[[], object]
    since: float = field(default_factory=time.monotonic)
    key: bytes | None = None


class Door:
    """The visitors, oldest first: unknown ones by address, known ones by key."""

    def __init__(self, limits: Limits, most_of_a_key: int):
        self.limits, self.most = limits, most_of_a_key
        self.unknown: dict[str, dict[Visitor, None]] = {}
        self.known: dict[bytes, dict[Visitor, None]] = {}

    def makes_room(self, address: str) -> bool:
        """Whether one more of this address may come in, now that another may have left for it."""
        own, limits = self.unknown.get(address, {}), self.limits
        if len(own) >= limits.per_address:
            oldest = next(iter(own))
            if time.monotonic() - oldest.since < limits.grace:
                return False
        elif sum(map(len, self.unknown.values())) >= limits.unknown:
            oldest = next(iter(max(self.unknown.values(), key=len)))
        else:
            return True
        self.leaves(oldest)
        oldest.dismiss()
        return True

    def enters(self, visitor: Visitor) -> None:
        self.unknown.setdefault(visitor.address, {})[visitor] = None

    def is_known(self, visitor: Visitor, key: bytes) -> None:
        """From now on this is a connection of that key; of too many, the oldest ends."""
        if visitor.key == key:
            return
        self.leaves(visitor)
        visitor.key = key
        own = self.known.get(key, {})
        if len(own) >= self.most:
            oldest = next(iter(own))
            self.leaves(oldest)
            oldest.dismiss()
        self.known.setdefault(key, {})[visitor] = None

    def leaves(self, visitor: Visitor) -> None:
        known = visitor.key is not None
        groups: Any = self.known if known else self.unknown
        name = visitor.key if known else visitor.address
        group = groups.get(name, {})
        group.pop(visitor, None)
        if not group:
            groups.pop(name, None)

    def keep_only(self, keys: Set[bytes]) -> None:
        """Send away the connections of all other keys."""
        for key in self.known.keys() - keys:
            for visitor in list(self.known[key]):
                self.leaves(visitor)
                visitor.dismiss()
