"""`proxfl inspect MODEL`: what a model is, and how it was certified."""

import argparse
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a result folder or model.json")


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.shared.results import show_model
    from proxfl.train.folder import read_model

    model, held = read_model(args.model)
    print(f"Target: {held['target']}")
    if model.classes:
        print(f"Classes: {', '.join(map(str, model.classes))}")
    print(f"{held['objective']}\n")
    show_model(held)
    print("Made by:", ", ".join(f"{name} {number}" for name, number in held["versions"].items()))
    return 0
