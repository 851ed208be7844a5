"""Where the parts of a federation lie in its folder, at the server and at a site.

federation.toml   the problem and the sites: public, the same everywhere
ca.pem            the certificate by which sites know the server; none without TLS
README.md, *.sh   what to do next, at the server and at a site
app/              the Flower app
sites/NAME.pub    at the server: the public keys of the sites
server/           at the server, its owner's alone: keys, database, logs, the run's status
results/          at the server: the result of a run
site-NAME/        at a site, its owner's alone: key, states, logs
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from proxfl.storage.files import write_text
from proxfl.tables import InputError

SITE_STATUS = "status.json"  # in a site's folder: how it stands with the server


class Home(NamedTuple):
    """The folder of a federation."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def app(self) -> Path:
        return self.folder / "app"

    @property
    def public_keys(self) -> Path:
        return self.folder / "sites"

    @property
    def server(self) -> Path:
        return self.folder / "server"

    @property
    def server_keys(self) -> Path:
        return self.server / "keys"

    @property
    def address(self) -> Path:
        """Where the server listens: written by `serve`, read by `run`."""
        return self.server / "address.json"

    @property
    def registered(self) -> Path:
        """The sites that were let in."""
        return self.server / "registered.json"

    @property
    def status(self) -> Path:
        """How the last run stands."""
        return self.server / "status.json"

    def site(self, name: str) -> Path:
        return self.folder / f"site-{name}"

    def results(self) -> Path:
        """The first folder for results that holds none."""
        number, folder = 1, self.folder / "results"
        while folder.exists() and any(folder.iterdir()):
            number += 1
            folder = self.folder / f"results-{number}"
        return folder


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{path}: there is no such file; {remedy}.") from None
    except ValueError:
        raise InputError(f"{path}: this cannot be read as JSON; remove it.") from None
