"""`proxfl demo`: the fast form of `proxfl reproduce fig1`."""

import argparse
from pathlib import Path

from proxfl.cli.arguments import folder


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=folder, default=Path("out/demo"), help="result folder")


def run(args: argparse.Namespace) -> int:
    from proxfl.cli import reproduce

    print("Sparse logistic regression over 30 clients with heterogeneous data (Figure 1).")
    return reproduce.run(argparse.Namespace(target="fig1", out=args.out, quick=True))
