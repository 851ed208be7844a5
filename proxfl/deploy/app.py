"""The Flower app of an experiment: a folder that `flwr run` takes. All code is in the package."""

import json
from collections.abc import Mapping
from pathlib import Path

import proxfl
from proxfl.storage.files import write_text

README = """# {name}

A federated experiment of ProxFL. `proxfl federate run` runs this folder; so does `flwr run`, given
a SuperLink and, at each site, a worker.
"""

PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = {name}
version = "{version}"
description = "A federated experiment of ProxFL."
license = "Apache-2.0"
dependencies = ["proxfl[flower]=={version}"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "proxfl"

[tool.flwr.app.components]
serverapp = "proxfl.deploy.server:app"
clientapp = "proxfl.deploy.client:app"

[tool.flwr.app.config]
{config}
"""


def write_app(folder: Path, name: str, config: Mapping[str, str | int | float | bool]) -> Path:
    """Write the app; a run may override the keys of `config`, one of which is `drive`."""
    if "drive" not in config:
        raise ValueError(
            'The configuration must name its driver: drive = "package.module:function".'
        )
    lines = "\n".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in config.items())
    project = PROJECT.format(name=json.dumps(name), version=proxfl.__version__, config=lines)
    write_text(folder / "pyproject.toml", project)
    write_text(folder / "README.md", README.format(name=name))
    return folder
