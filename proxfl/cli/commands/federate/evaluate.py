"""`proxfl federate evaluate DIR NAME --model MODEL`: how good a model is at the sites."""

import argparse
from pathlib import Path

from proxfl.cli.commands.federate import run, study
from proxfl.deploy.ops.home import Home
from proxfl.storage.documents import read_bytes


def arguments(parser: argparse.ArgumentParser) -> None:
    from proxfl.cli.commands.evaluate import add_how

    add = parser.add_argument
    study.add_name(parser)
    add("--model", type=Path, required=True, metavar="MODEL", help="a result folder or model.json")
    add_how(parser)
    study.add_unmasked(parser)
    run.add_out(parser)
    run.shared_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.commands.evaluate import how_of
    from proxfl.deploy.protocol.membership import read_membership
    from proxfl.deploy.protocol.study import make_evaluation
    from proxfl.train.folder import MODEL, model_folder

    home = Home(args.folder.resolve())
    path = model_folder(args.model) / MODEL if args.model.is_dir() else args.model
    text = read_bytes(path, "name the folder of a result").decode(errors="replace")
    members = read_membership(home.folder)
    about = (args.study, members.name, members.sites, text, how_of(args), args.unmasked)
    asked = make_evaluation(*about)
    return run.ask_new(home, asked, args)
