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
from typing import Any

from proxfl.errors import InputError
from proxfl.storage.files import write_text

SITE_STATUS = "status.json"  # in a site's folder: how it stands with the server


class Home:
    """The folder of a federation."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.authority = folder / "ca.pem"
        self.app = folder / "app"
        self.public_keys = folder / "sites"
        self.server = folder / "server"
        self.server_keys = self.server / "keys"
        self.address = self.server / "address.json"  # where the server listens, by `serve`
        self.registered = self.server / "registered.json"  # the sites that were let in
        self.status = self.server / "status.json"  # how the last run stands

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
