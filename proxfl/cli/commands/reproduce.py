"""`proxfl reproduce TARGET`: the paper's experiments, and a verdict on its claims."""

import argparse
from pathlib import Path

from proxfl.cli.shared.arguments import folder

TARGETS = ("fig1", "fig2", "fig3", "theory", "ablation")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--out", type=folder, default=Path("out/reproduce"), help="result folder")
    parser.add_argument("--quick", action="store_true", help="fewer draws and rounds")


def main(args: argparse.Namespace) -> int:
    from proxfl.console.table import show
    from proxfl.research.reproduce.targets import reproduce

    names = TARGETS if args.target == "all" else (args.target,)
    command = f"proxfl reproduce {args.target}{' --quick' if args.quick else ''}"
    claims = reproduce(names, args.out, args.quick, command)
    show("Claims of the paper", ["claim", "verdict"], [[c.name, c.verdict] for c in claims])
    print(f"Report: {args.out / 'report.html'}")
    return 0
