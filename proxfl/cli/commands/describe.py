"""`proxfl describe FILES...`: the table one of a paper, by site and overall."""

import argparse
import json
from pathlib import Path

from proxfl.cli.shared.arguments import refuse_there
from proxfl.console.words import count, csv_text, lines, printable
from proxfl.errors import DONE, InputError
from proxfl.storage.documents import read_json

LEAST = 4  # columns that are shown, however wide: of all sites together, and of one


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sites", type=Path, nargs="+", metavar="FILE", help="data files, or folders of them")
    add("--schema", type=Path, metavar="FILE.toml", help="what the columns are (default: a draft)")
    small = "hide counts above 0 and below this, and numbers of fewer rows (default: 5; 1: none)"
    add("--smallest-cell", type=int, default=5, metavar="N", help=small)
    add("--out", type=Path, metavar="FILE.csv", help="write a table of all sites there")
    add("--json", action="store_true", help="print all of it as one JSON object")


def main(args: argparse.Namespace) -> int:
    from proxfl.report.description import summary, table
    from proxfl.storage.files import write_text
    from proxfl.tables import Schema
    from proxfl.tables.describe import describe
    from proxfl.tables.files import files_in, refuse_without_names
    from proxfl.tables.propose import draft, schema_of

    if args.smallest_cell < 1:
        raise InputError(f"--smallest-cell must be at least 1, got {args.smallest_cell}.")
    refuse_there(args.out)
    files = files_in(args.sites)
    for file in files:
        refuse_without_names(file)
    schema = schema_of(draft(files)) if args.schema is None else Schema.read(args.schema)
    found = describe(files, schema, args.smallest_cell)
    heads, rows = table(found, args.smallest_cell)
    if args.out is not None:
        write_text(args.out, csv_text([heads, *rows]))
    if args.json:
        print(json.dumps(summary(found, {"smallest_cell": args.smallest_cell})))
        return 0
    tell(heads, rows)
    if args.out is not None:
        print(f"Table: {printable(args.out)}")
    return 0


def tell(heads: list[str], rows: list[list[str]]) -> None:
    from proxfl.console.table import fitting, show

    few = fitting(heads, rows, LEAST)
    show("", heads[:few], [row[:few] for row in rows])
    if len(heads) > few:
        print(f"... and {count(len(heads) - few, 'more site')}, in --json and --out.")
    print("Of numbers: mean (standard deviation), median [quartiles]; a quartile is off by at most")
    print("a hundredth of the standard deviation. Of levels: rows (share of rows that have one).")


def show_saved(folder: Path, as_json: bool) -> int:
    """A description of real sites as its folder has it."""
    from proxfl.report.description import SUMMARY, Summary, notes

    held = read_json(folder / SUMMARY, Summary)
    if as_json:
        print(json.dumps(held))
        return DONE
    tell(held["heads"], held["rows"])
    print(lines(notes(held)))
    print(f"Results: {printable(folder)}")
    return DONE
