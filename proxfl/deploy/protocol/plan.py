"""What server and sites read before anything else: `federation.toml`, the same file for all.

    name = "heart"
    sites = ["north", "south", "west"]     # the order in which sums are taken
    features = ["age", "bmi"]              # if left out: all columns but the target

    [problem]                              # the options of `proxfl train`, spelt as in its TOML
    target = "diagnosis"
    loss = "logistic"
    l1 = 0.01

Nothing in it is private. The experiment's name on the wire is made from all of it but `rounds` and
`tol`: a site whose copy differs answers no message.
"""

import dataclasses
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from proxfl.errors import InputError
from proxfl.storage.files import write_text
from proxfl.tables import Table, read_site
from proxfl.train.spec import Spec

FILE = "federation.toml"
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
OWN = ("sites", "out")  # options that a federation has in other ways
LOOSE = ("rounds", "tol")  # what the server may change without asking anyone


@dataclasses.dataclass(frozen=True)
class Plan:
    """A federation before its sites have met."""

    name: str
    sites: tuple[str, ...]
    spec: Spec
    features: tuple[str, ...] = ()

    def __post_init__(self):
        for name in (self.name, *self.sites):
            if not NAME.fullmatch(name):
                raise InputError(
                    f"{name!r} cannot name a federation or a site; use letters, digits, '.', '-' "
                    "and '_'."
                )
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise InputError(f"sites must be distinct names, at least one, got {self.sites}.")

    @property
    def id(self) -> str:
        """The experiment's name on the wire."""
        from proxfl.deploy.protocol.wire import tag

        fixed = {k: v for k, v in self.to_dict()["problem"].items() if k not in LOOSE}
        content = json.dumps([self.sites, self.features, fixed], sort_keys=True)
        return f"{self.name}-{tag(content).hex()[:12]}"

    def to_dict(self) -> dict[str, Any]:
        problem = {key: value for key, value in self.spec.changed().items() if key not in OWN}
        features = {"features": list(self.features)} if self.features else {}
        return {"name": self.name, "sites": list(self.sites), **features, "problem": problem}

    def write(self, folder: Path) -> None:
        first = "# Server and sites hold the same copy of this file.\n"
        write_text(folder / FILE, first + tomli_w.dumps(self.to_dict()))


def read_plan(folder: Path) -> Plan:
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
    odd = sorted((held.keys() - {"features"}) ^ {"name", "sites", "problem"})
    if odd:
        raise InputError(f"{path}: the key {odd[0]!r} is missing or unknown; copy the file anew.")
    try:
        spec = Spec.from_dict(held["problem"])
        return Plan(held["name"], tuple(held["sites"]), spec, tuple(held.get("features", ())))
    except (InputError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None


def read_table(plan: Plan, data: Path) -> Table:
    """A site's file, as the plan wants it read."""
    return read_site(data, plan.spec.target, plan.spec.missing, plan.features or None)
