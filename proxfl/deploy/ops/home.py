"""Where the parts of a federation lie in its folder, at the server and at a site.

federation.toml   the name and the sites: public, the same everywhere
studies/NAME.toml at the server: what is asked
ca.pem            the certificate by which sites know the server; none without TLS
README.md, *.sh   what to do next, at the server and at a site
app/              the Flower app
sites/NAME.pub    at the server: the public keys of the sites
server/           at the server, its owner's alone: keys, database, logs, the run's status
results/          at the server: the result of a run; of the study NAME, results-NAME/
site-NAME/        at a site, its owner's alone: key, policy, audit log, studies, logs
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from proxfl.storage import documents

EXCHANGES = "exchanges"  # in the results of a masked run: its sums, from which it goes on
PAGE = "page.json"  # in the server's or a site's private folder: where its page is
SITE_STATUS = "status.json"  # in a site's folder: how it stands with the server


class Home:
    """The folder of a federation."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.authority = folder / "ca.pem"
        self.app = folder / "app"
        self.public_keys = folder / "sites"
        self.studies = folder / "studies"
        self.server = folder / "server"
        self.server_keys = self.server / "keys"
        self.inner_authority = self.server / "inner" / "inner-ca.pem"  # of the SuperLink, inside
        self.epoch = self.server / "epoch"  # how many lives runs have had here
        self.address = self.server / "address.json"  # where the server listens, by `serve`
        self.registered = self.server / "registered.json"  # the sites that were let in
        self.status = self.server / "status.json"  # how the last run stands

    def site(self, name: str) -> Path:
        return self.folder / f"site-{name}"

    def exchanges(self, study: str) -> Path:
        """The sums of a masked study that is not training, from which it goes on."""
        return self.server / EXCHANGES / study

    def study(self, name: str) -> Path:
        return self.studies / f"{name}.toml"

    def results(self, study: str = "") -> Path:
        """The first folder for results of a study that holds none; the first study has no name."""
        name = f"results-{study}" if study else "results"
        number, folder = 1, self.folder / name
        while folder.exists() and any(folder.iterdir()):
            number += 1
            folder = self.folder / f"{name}-{number}"
        return folder


class Address(TypedDict):
    """Where a server listens: to sites, and on its own machine."""

    sites: str
    inside: str
    secure: bool
    pid: int


class Entry(TypedDict):
    """By which key a site was let in, and as which node."""

    site: str
    node: str


class Registered(TypedDict):
    """By the fingerprint of every key that was ever let in."""

    keys: dict[str, Entry]


class RunStatus(TypedDict):
    """How a run stands; what a round shows is there once the first is done."""

    state: str
    run: str
    pid: int
    out: str
    sites: list[str]
    present: list[str]
    options: dict[str, Any]
    models: NotRequired[int]  # of a path, that are done
    models_in_all: NotRequired[int]
    round: NotRequired[int]
    rounds: NotRequired[int]
    optimality: NotRequired[float | None]
    tolerance: NotRequired[float]
    left: NotRequired[float | None]
    answered: NotRequired[int]
    away: NotRequired[list[str]]
    bytes_up: NotRequired[int]
    bytes_down: NotRequired[int]
    faults: NotRequired[int]
    curve: NotRequired[list[tuple[int, float]]]
    exchanges: NotRequired[int]
    trouble: NotRequired[list[tuple[float, int, str, str]]]
    reason: NotRequired[str]
    code: NotRequired[int]


class SiteStatus(TypedDict):
    """How a site stands with the server, and what it did about studies."""

    pid: int
    sentence: str
    news: NotRequired[list[str]]


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """For the owner of the folder alone."""
    documents.write_json(path, content, private=True)


def read_json(path: Path, remedy: str, kind: Any = dict[str, Any]) -> Any:
    return documents.read_json(path, kind, remedy or "start the command again")
