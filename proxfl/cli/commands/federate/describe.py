"""`proxfl federate describe DIR NAME --schema FILE.toml`: table one of all sites."""

import argparse
from pathlib import Path

from proxfl.cli.commands.federate import run, study
from proxfl.cli.shared.arguments import count
from proxfl.deploy.ops.home import Home


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    study.add_name(parser)
    what = "what the columns are, and all levels there may be"
    add("--schema", type=Path, required=True, metavar="FILE.toml", help=what)
    small = "the rows of a site behind anything it tells, at least (default: 5)"
    add("--smallest-cell", type=count, default=5, metavar="N", help=small)
    study.add_unmasked(parser)
    run.add_out(parser)
    run.shared_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.membership import read_membership
    from proxfl.deploy.protocol.study import make_description
    from proxfl.tables import Schema

    home = Home(args.folder.resolve())
    members, schema = read_membership(home.folder), Schema.read(args.schema)
    about = (members.name, members.sites, schema, args.smallest_cell, args.unmasked)
    asked = make_description(args.study, *about)
    return run.ask_new(home, asked, args)
