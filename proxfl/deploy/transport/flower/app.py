"""The Flower app of a federation: a folder that `flwr run` takes. All code is in the package."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from proxfl import __version__
from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.keyring import KeyRing
from proxfl.deploy.protocol.membership import read_membership
from proxfl.deploy.protocol.study import read_study_at
from proxfl.deploy.server.deployed import STUDY
from proxfl.deploy.server.options import RunOptions
from proxfl.deploy.server.program import carry_out
from proxfl.deploy.transport.flower.launch import DATABASE
from proxfl.deploy.transport.flower.server import FlowerTransport
from proxfl.storage.files import write_text

README = """# {name}

A federation of ProxFL. `proxfl federate run` runs this folder; so does `flwr run`, given
a SuperLink. Sites take part with `proxfl federate join`.
"""


def write_app(folder: Path, name: str, config: Mapping[str, Any]) -> None:
    """Write the app; a run may override the keys of `config`."""
    project = {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {
            "name": name,
            "version": __version__,
            "description": "A federation of ProxFL.",
            "license": "Apache-2.0",
            "dependencies": [f"proxfl[flower]=={__version__}"],
        },
        "tool": {
            "hatch": {"build": {"targets": {"wheel": {"packages": ["."]}}}},
            "flwr": {
                "app": {
                    "publisher": "proxfl",
                    "components": {
                        "serverapp": f"{__name__}:server",
                        "clientapp": f"{__name__}:site",
                    },
                    "config": dict(config),
                }
            },
        },
    }
    write_text(folder / "pyproject.toml", tomli_w.dumps(project))
    write_text(folder / "README.md", README.format(name=name))


def server_app(main: Callable[[Grid, Context], None]) -> ServerApp:
    """A ServerApp that runs `main`."""
    app = ServerApp()
    app.main()(main)
    return app


def train(grid: Grid, context: Context) -> None:
    """The run that its configuration describes."""
    options = RunOptions.of(context.run_config)
    home = Home(Path(options.folder))
    membership = read_membership(home.folder)
    begun = Path(options.out) / STUDY
    study = read_study_at(begun if begun.exists() else home.study(options.study))
    keys = KeyRing(home.public_keys).keys if options.secure else None
    about = (grid, membership.channel, study.sites, keys)
    transport = FlowerTransport(*about, home.server / DATABASE)
    carry_out(membership, study, options, transport, str(context.run_id))


server = server_app(train)
site = ClientApp()  # Flower asks for one; sites open no app and answer by themselves
