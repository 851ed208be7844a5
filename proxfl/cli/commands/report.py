"""`proxfl report DIR`: the report of a result, from the files in its folder alone."""

import argparse
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="a result folder")


def main(args: argparse.Namespace) -> int:
    from proxfl.report.training import page
    from proxfl.train.folder import REPORT, read

    print(f"Report: {page(read(args.folder)).write(args.folder / REPORT)}")
    return 0
