"""Whom this site knows: the members' keys that a person here has compared with people elsewhere.

members.json   in the site's folder: lists of members that came from the server, each with the names
               of those with whom a person here has compared its words; none, as long as nobody has

The server carries the list, so it could put keys of its own into it. Its words are read to others
over a way that the server does not control, a telephone say: where they are the same, so are the
keys.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.messages import members_in, members_text
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.errors import InputError
from proxfl.storage import documents

FILE = "members.json"
FEWEST_OTHERS = 2  # with whom a list is compared: two honest members must know each other's keys
MOST_LISTS = 100  # that wait: a server could fill the disk


class ListFile(TypedDict):
    """A list of members, name by name its key, and with whom it was compared."""

    members: dict[str, str]
    compared: list[str]


class ListsFile(TypedDict):
    """By the digest of the list."""

    lists: dict[str, ListFile]


class Confirmed:
    """The lists of one site."""

    def __init__(self, folder: Path):
        self.path = folder / FILE

    def lists(self) -> dict[str, ListFile]:
        return documents.read_json(self.path, ListsFile)["lists"] if self.path.exists() else {}

    def holds(self, members: Members) -> bool:
        """Whether a person has compared this list; one that nobody has seen is put before them."""
        lists, name = self.lists(), members.digest.hex()
        if name not in lists and len(lists) < MOST_LISTS:
            self.write(lists | {name: ListFile(members=keys_of(members), compared=[])})
        return len(lists.get(name, ListFile(members={}, compared=[]))["compared"]) >= FEWEST_OTHERS

    def waiting(self) -> list[Members]:
        return [self.read(held) for held in self.lists().values() if not held["compared"]]

    def read(self, held: ListFile) -> Members:
        try:
            return members_in(json.dumps(held["members"]))
        except BadMessage as error:
            raise InputError(f"{self.path}: {error}") from None

    def confirm(self, members: Members, site: str, compared: Sequence[str]) -> None:
        """A person's word that these others have the same words."""
        others = {member.name for member in members.each} - {site}
        odd = sorted(set(compared) - others)
        if odd:
            names = ", ".join(sorted(others))
            raise InputError(f"{odd[0]!r} is no other member; the others are {names}.")
        if len(set(compared)) < FEWEST_OTHERS:
            raise InputError(
                f"the words must be compared with {FEWEST_OTHERS} others or more, got "
                f"{len(set(compared))}; a list that the server alone vouches for may be its own."
            )
        held = ListFile(members=keys_of(members), compared=sorted(set(compared)))
        self.write(self.lists() | {members.digest.hex(): held})

    def write(self, lists: dict[str, ListFile]) -> None:
        documents.write_json(self.path, {"lists": lists}, private=True)


def keys_of(members: Members) -> dict[str, str]:
    return json.loads(members_text(members))
