"""`proxfl report DIR`: the report of a result, from the files in its folder alone."""

import argparse
from pathlib import Path

from proxfl.console.words import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="a result folder")


def main(args: argparse.Namespace) -> int:
    from proxfl.report.training import page
    from proxfl.train.folder import REPORT, model_folder, read

    folder = model_folder(args.folder)
    written = page(read(folder)).write(folder / REPORT)
    print(f"Report: {printable(written)}")
    return 0
