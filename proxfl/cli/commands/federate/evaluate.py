"""`proxfl federate evaluate DIR NAME --model MODEL`: how good a model is at the sites."""

import argparse
from pathlib import Path

from proxfl.cli.commands.federate import run, study
from proxfl.deploy.ops.home import Home
from proxfl.storage.documents import read_bytes


def arguments(parser: argparse.ArgumentParser) -> None:
    from proxfl.cli.commands.evaluate import add_how

    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the folder of the federation")
    add("study", metavar="NAME", help="what to call the study")
    add("--model", type=Path, required=True, metavar="MODEL", help="a result folder or model.json")
    add_how(parser)
    study.add_unmasked(parser)
    add("--out", type=Path, help="the folder for the results (default: in DIR)")
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
    run.running(home)  # or there would be a study that nobody asked
    study.keep(home, asked)
    return run.main(args)
