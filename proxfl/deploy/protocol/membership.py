"""Who meets: `federation.toml`, the same file for all.

    name = "heart"
    sites = ["north", "south", "west"]

Nothing in it is private. A federation is joined once; what it is asked comes and goes, see
`proxfl.deploy.protocol.study`.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from proxfl.errors import InputError
from proxfl.storage.files import write_text

FILE = "federation.toml"
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,49}")


@dataclass(frozen=True)
class Membership:
    """A federation: its name and its members."""

    name: str
    sites: tuple[str, ...]

    def __post_init__(self):
        check_names(self.name, *self.sites)
        check_distinct(self.sites)

    @property
    def channel(self) -> str:
        """The name on the wire of what is not about any one study."""
        return f"proxfl federation {self.name}"

    def write(self, folder: Path) -> None:
        first = "# Server and sites hold the same copy of this file.\n"
        held = {"name": self.name, "sites": list(self.sites)}
        write_text(folder / FILE, first + tomli_w.dumps(held))


def check_names(*names: Any) -> None:
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(
                f"{name!r} cannot name a federation, a site or a study; use at most 50 letters, "
                "digits, '.', '-' and '_'."
            )


def check_distinct(sites: tuple[str, ...]) -> None:
    if not sites or len(set(sites)) != len(sites):
        raise InputError(f"sites must be distinct names, at least one, got {sites}.")


def read_membership(folder: Path) -> Membership:
    path = folder / FILE
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"{path}: there is no such file; make it with proxfl federate init, or copy it from "
            "the server."
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: this is not TOML: {error}; copy it anew.") from None
    odd = sorted(held.keys() ^ {"name", "sites"})
    if odd:
        raise InputError(f"{path}: the key {odd[0]!r} is missing or unknown; copy the file anew.")
    try:
        return Membership(held["name"], tuple(held["sites"]))
    except (InputError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None
