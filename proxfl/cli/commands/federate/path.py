"""`proxfl federate path DIR NAME --target COLUMN --loss LOSS`: a weight, chosen at the sites."""

import argparse

from proxfl.cli.commands.federate import run, study
from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_config
from proxfl.deploy.ops.home import Home

OF_THE_RUN = ("out", "wait", "deadline", "json")
EPILOG = """
Writes a study of the options of 'proxfl path' and asks it: folds are dealt at the sites, and all
that leaves them is sums over rows. A path that waits for a person, or was interrupted, is asked
again with 'proxfl federate run' and 'resume'. Areas under curves are not among its scores.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    from proxfl.cli.commands.path import add_choice

    study.add_name(parser)
    add_config(parser)
    study.add_unmasked(parser)
    options.add(parser, without=("sites", "out"))
    add_choice(parser)
    run.add_out(parser)
    run.add_patience(parser, without=("quorum",))
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.commands.path import asked
    from proxfl.deploy.protocol.membership import read_membership

    home = Home(args.folder.resolve())
    spec, choice = asked(args)
    members = read_membership(home.folder)
    run.running(home)  # or there would be a study that nobody asked
    study.write(home, members, args.study, spec, args.unmasked, choice)
    given = {name: getattr(args, name) for name in OF_THE_RUN if name in args}
    return run.main(argparse.Namespace(folder=args.folder, study=args.study, **given))
