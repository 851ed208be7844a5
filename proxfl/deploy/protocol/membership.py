"""Who meets: `federation.toml`, the same file for all.

    name = "heart"
    sites = ["north", "south", "west"]

Nothing in it is private. A federation is joined once; what it is asked comes and goes, see
`proxfl.deploy.protocol.study`. So do members: who runs reads the file again when it is another.
"""

import logging
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from proxfl.errors import InputError
from proxfl.storage.files import write_text
from proxfl.storage.toml import parsed

log = logging.getLogger("proxfl.deploy")

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

    def having(self, site: str) -> "Membership":
        """The same with one member more."""
        if site in self.sites:
            raise InputError(f"{site!r} is a site of {self.name} already.")
        return Membership(self.name, (*self.sites, site))

    def without(self, site: str) -> "Membership":
        """The same with one member fewer."""
        return Membership(
            self.name, tuple(held for held in self.sites if held != known(self, site))
        )

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


class LiveMembership:
    """The members that the file names now; while it cannot be read, those that it named before."""

    def __init__(self, folder: Path):
        self.path, self.stamp = folder / FILE, self.stamp_of(folder / FILE)
        self.last = read_membership(folder)

    @staticmethod
    def stamp_of(path: Path) -> tuple[int, int, int]:
        """What is another once the file is."""
        try:
            found = path.stat()
        except OSError:
            return (0, 0, 0)
        return found.st_ino, found.st_mtime_ns, found.st_size

    @property
    def now(self) -> Membership:
        stamp = self.stamp_of(self.path)
        if stamp != self.stamp:
            self.stamp = stamp
            try:
                found = read_membership(self.path.parent)
            except InputError as error:
                log.warning("The members stay as they were: %s", error)
                return self.last
            if found.name == self.last.name:
                self.last = found
            else:
                log.warning("%s: another federation; its members are not taken.", self.path)
        return self.last

    @property
    def name(self) -> str:
        return self.last.name

    @property
    def channel(self) -> str:
        return self.last.channel

    @property
    def sites(self) -> tuple[str, ...]:
        return self.now.sites


def known(membership: Membership | LiveMembership, site: str) -> str:
    """The site's name, if the federation has it."""
    if site not in membership.sites:
        names = ", ".join(membership.sites)
        raise InputError(
            f"{site!r} is no site of {membership.name}; it is one of {names}, unless proxfl "
            "federate members --add names another."
        )
    return site


def read_membership(folder: Path) -> Membership:
    path = folder / FILE
    try:
        held = parsed(path.read_text(encoding="utf-8"))
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
