"""`proxfl inspect MODEL`: what a model is, and how it was certified."""

import argparse
from pathlib import Path

from proxfl.console.words import called, lines, printable


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a result folder or model.json")


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.shared.results import show_model
    from proxfl.train.folder import read_model

    model, held = read_model(args.model)
    print(f"Target: {called(held['target'])}")
    if model.classes:
        print(f"Classes: {', '.join(map(called, model.classes))}")
    print(f"{lines(held['objective'])}\n")
    show_model(held)
    made = ", ".join(f"{name} {number}" for name, number in held["versions"].items())
    print(f"Made by: {printable(made)}")
    return 0
