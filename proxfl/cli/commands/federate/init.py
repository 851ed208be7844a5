"""`proxfl federate init DIR --sites A B C --target COLUMN --loss LOSS`: all that a server needs."""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path

from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import refuse_full
from proxfl.deploy.ops.home import Home
from proxfl.train.spec import Spec, describe

README = """# {name}

A federation of {count} sites ({sites}), made by `proxfl federate init`. The problem:

```
{problem}
```

## At the server

1. `./serve.sh` lets sites come in; it runs until Ctrl-C. Sites reach it at port 9092, or `--port`.
2. Give every site a copy of `federation.toml`, `ca.pem` and `join.sh`, by a way you both trust: it
   is by `ca.pem` that a site knows this server.
3. Put the public key that each site gives you, NAME.pub, into `sites/`. A running server sees it.
4. `./run.sh` trains, shows the progress and writes the results to `results/`.
5. If anything is interrupted: `proxfl federate resume .` goes on where it stopped.

`server/` holds this server's private keys. It is nobody else's business.

## At a site

1. `pip install 'proxfl[flower]'`, of the version that the server has ({version}).
2. `./join.sh --data FILE --server HOST:PORT --site NAME` runs until Ctrl-C. At the first time it
   makes a key and says where; give the public half, NAME.pub, to the server.

`site-NAME/` holds the site's private key and its part of the computation. Rows never leave FILE.

## With Flower alone

`app/` is a Flower app: `flwr run app` starts it at any SuperLink that the sites have joined.
"""

SCRIPT = """#!/bin/sh
# {what}
exec proxfl federate {action} "$(dirname "$0")" "$@"
"""
SCRIPTS = {
    "serve": "At the server: let sites come in, until Ctrl-C.",
    "run": "At the server: train.",
    "join": "At a site: ./join.sh --data FILE --server HOST:PORT --site NAME",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the folder to write")
    add("--sites", nargs="+", required=True, metavar="NAME", help="their names")
    add("--name", help="the federation's name (default: that of the folder)")
    add("--features", nargs="+", default=[], help="the columns to use; all, if left out")
    add("--host", nargs="+", default=[], help="the names by which sites will call the server")
    add("--config", type=Path, metavar="FILE.toml", help="a file of options")
    options.add(parser, without=("sites", "out"))


def main(args: argparse.Namespace) -> int:
    folder = args.folder.resolve()
    refuse_full(args.folder, "choose another")
    given = {key: value for key, value in options.given(args).items() if key != "sites"}
    spec, name = options.spec_of(args, given), args.name or folder.name
    write(folder, name, args.sites, spec, args.features, args.host)
    print(f"{args.folder} is ready; {args.folder / 'README.md'} says what to do. First:")
    print(f"  proxfl federate serve {shlex.quote(str(args.folder))}")
    return 0


def write(
    folder: Path,
    name: str,
    sites: list[str],
    spec: Spec,
    features: Sequence[str] = (),
    hosts: Sequence[str] = (),
) -> None:
    """The folder of a federation, with the server's keys."""
    from proxfl import __version__
    from proxfl.deploy.ops.keys import make_server_keys
    from proxfl.deploy.protocol.plan import Plan
    from proxfl.deploy.server.training import RunOptions
    from proxfl.deploy.transport.flower.app import write_app
    from proxfl.storage.files import write_text
    from proxfl.train.drivers import fixed

    spec = spec.read_files().replace(sites=(), out=None)
    plan = Plan(name, tuple(sites), spec, tuple(features))
    if fixed.applies(spec):
        fixed.refuse_method(spec)
    home = Home(folder)
    home.public_keys.mkdir(parents=True)
    keys = make_server_keys(home.server_keys, hosts)
    write_text(home.authority, keys.authority.read_text())
    given = RunOptions(folder=str(folder), out=str(home.results()))
    write_app(home.app, name, dataclasses.asdict(given))
    for action, what in SCRIPTS.items():
        write_text(folder / f"{action}.sh", SCRIPT.format(what=what, action=action))
        (folder / f"{action}.sh").chmod(0o755)
    about = {"count": len(sites), "sites": ", ".join(sites), "version": __version__}
    write_text(folder / "README.md", README.format(name=name, problem=describe(spec), **about))
    plan.write(folder)  # last: a folder that has it is complete
