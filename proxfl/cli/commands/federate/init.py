"""`proxfl federate init DIR --sites A B C`: all that a server needs; a problem is a first study."""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path

from proxfl.cli.commands.federate import study
from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_config, host
from proxfl.deploy.ops.home import Home
from proxfl.storage.files import refuse_full
from proxfl.train.spec import Spec, describe

README = """# {name}

A federation of {count} sites ({sites}), made by `proxfl federate init`.{problem}

## At the server

1. `./serve.sh` lets sites come in; it runs until Ctrl-C. Sites reach it at port 9092, or `--port`.
2. Give every site a copy of `federation.toml`, `ca.pem` and `join.sh`, by a way you both trust: it
   is by `ca.pem` that a site knows this server.
3. Put the public key that each site gives you, NAME.pub, into `sites/`. A running server sees it.
4. `./run.sh` trains, shows the progress and writes the results to `results/`. With three sites or
   more it learns sums over all of them only; the first time, each site has to say whom it knows.
5. `proxfl federate study . NAME --target ... --loss ...` writes another study, and
   `./run.sh NAME` asks it. Sites have nothing to do for it, unless their policies say so.
6. If anything is interrupted: `proxfl federate resume .` goes on where it stopped.

`server/` holds this server's private keys. It is nobody else's business. `server/keys/ca.key`
signs the server's certificate, which is valid for {days} days; move it to a safe place, and give it
to `proxfl federate keys renew . --authority-key FILE` when a month is left, as the server will say.

## At a site

1. `pip install 'proxfl[flower]'`, of the version that the server has ({version}).
2. `./join.sh --data FILE --server HOST:PORT --site NAME` runs until Ctrl-C. At the first time it
   makes a key and says where; give the public half, NAME.pub, to the server.
3. When a run waits for it: `proxfl federate members . --site NAME` shows twelve words. Call two
   other sites; if theirs are the same, add `--compared` and their names.

`site-NAME/` holds the site's private key and its part of the computation. Rows never leave FILE.
`site-NAME/policy.toml` says what the site takes part in; it is the site's to change.

## With Flower alone

`app/` is a Flower app: `flwr run app` starts it at any SuperLink that the sites have joined.
"""

PROBLEM = """ The problem of the first study:

```
{problem}
```"""

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
    add(
        "--host",
        nargs="+",
        default=[],
        type=host,
        help="the names by which sites will call the server",
    )
    add_config(parser)
    study.add_unmasked(parser)
    options.add(parser, without=("sites", "out"))


def main(args: argparse.Namespace) -> int:
    folder = args.folder.resolve()
    refuse_full(args.folder, "choose another")
    given = {key: value for key, value in options.given(args).items() if key != "sites"}
    asked = given or args.config is not None
    spec, name = options.spec_of(args, given) if asked else None, args.name or folder.name
    write(folder, name, args.sites, spec, args.host, args.unmasked)
    print(f"{args.folder} is ready; {args.folder / 'README.md'} says what to do. First:")
    print(f"  proxfl federate serve {shlex.quote(str(args.folder))}")
    return 0


def write(
    folder: Path,
    name: str,
    sites: list[str],
    spec: Spec | None,
    hosts: Sequence[str] = (),
    unmasked: bool = False,
) -> None:
    """The folder of a federation, with the server's keys; it appears whole or not at all."""
    from proxfl import __version__
    from proxfl.deploy.ops.certificates import SERVER_DAYS
    from proxfl.deploy.ops.keys import make_server_keys
    from proxfl.deploy.protocol.membership import Membership
    from proxfl.deploy.server.options import RunOptions
    from proxfl.deploy.transport.flower.app import write_app
    from proxfl.storage.files import make_folder, whole_folder, write_text

    membership = Membership(name, tuple(sites))
    spec = None if spec is None else spec.read_files()
    problem = "" if spec is None else PROBLEM.format(problem=describe(spec))
    about = {"count": len(sites), "sites": ", ".join(sites), "version": __version__}
    about |= {"days": SERVER_DAYS}
    asked = "" if spec is None else name
    given = RunOptions(folder=str(folder), study=asked, out=str(Home(folder).results()))
    with whole_folder(folder) as made:
        home = Home(made)
        make_folder(home.public_keys)
        keys = make_server_keys(home.server_keys, hosts)
        write_text(home.authority, keys.authority.read_text())
        write_app(home.app, name, dataclasses.asdict(given))
        for action, what in SCRIPTS.items():
            write_text(made / f"{action}.sh", SCRIPT.format(what=what, action=action))
            (made / f"{action}.sh").chmod(0o755)
        write_text(made / "README.md", README.format(name=name, problem=problem, **about))
        if spec is not None:
            study.write(home, membership, name, spec, unmasked)
        membership.write(made)
