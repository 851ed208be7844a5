"""`proxfl reproduce TARGET`: the paper's experiments with a verdict on its claims; real sites."""

import argparse
from pathlib import Path

from proxfl.cli.shared.arguments import folder

PAPER = (
    "fig1",
    "fig2",
    "fig3",
    "theory",
    "bounds",
    "ablation",
    "local-steps",
    "noise",
    "remarks",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", choices=[*PAPER, "all", "sites"])
    parser.add_argument("--out", type=folder, default=Path("out/reproduce"), help="result folder")
    parser.add_argument("--quick", action="store_true", help="fewer draws and rounds")


def main(args: argparse.Namespace) -> int:
    from proxfl.console.table import show
    from proxfl.research.reproduce.targets import reproduce

    names = PAPER if args.target == "all" else (args.target,)
    command = f"proxfl reproduce {args.target}{' --quick' if args.quick else ''}"
    claims = reproduce(names, args.out, args.quick, command)
    if claims:
        show("Claims of the paper", ["claim", "verdict"], [[c.name, c.verdict] for c in claims])
    print(f"Report: {args.out / 'report.html'}")
    return 0
