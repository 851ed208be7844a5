"""`proxfl describe FILES...`: the table one of a paper, by site and overall."""

import argparse
import csv
import io
import json
from pathlib import Path
from typing import Any

from proxfl.console.words import csv_cell, printable
from proxfl.errors import InputError

MOST_SITES = 6  # columns of a terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sites", type=Path, nargs="+", metavar="FILE", help="data files, or folders of them")
    add("--schema", type=Path, metavar="FILE.toml", help="what the columns are (default: a draft)")
    small = "hide counts above 0 and below this, and numbers of fewer rows (default: 5; 1: none)"
    add("--smallest-cell", type=int, default=5, metavar="N", help=small)
    add("--out", type=Path, metavar="FILE.csv", help="write a table of all sites there")
    add("--json", action="store_true", help="print all of it as one JSON object")


def main(args: argparse.Namespace) -> int:
    from proxfl.console.table import show
    from proxfl.storage.files import write_text
    from proxfl.tables import Schema
    from proxfl.tables.describe import describe
    from proxfl.tables.files import files_in, refuse_without_names
    from proxfl.tables.propose import draft, schema_of

    if args.smallest_cell < 1:
        raise InputError(f"--smallest-cell must be at least 1, got {args.smallest_cell}.")
    if args.out is not None and args.out.exists():
        raise InputError(f"{args.out}: there is such a file already; choose another name.")
    files = files_in(args.sites)
    for file in files:
        refuse_without_names(file)
    schema = schema_of(draft(files)) if args.schema is None else Schema.read(args.schema)
    found = describe(files, schema, args.smallest_cell)
    heads, rows = table(found, args.smallest_cell)
    if args.out is not None:
        write_text(args.out, as_csv([heads, *rows]))
    if args.json:
        columns = {name: held.to_dict() for name, held in found.items()}
        print(json.dumps({"smallest_cell": args.smallest_cell, "columns": columns}))
        return 0
    few = MOST_SITES + 3
    show("", heads[:few], [row[:few] for row in rows])
    if len(heads) > few:
        print(f"... and {len(heads) - few} more sites, in --json and --out.")
    print("Of numbers: mean (standard deviation), median [quartiles]; a quartile is off by at most")
    print("a thousandth of the column's range. Of levels: rows (share of the rows that have one).")
    if args.out is not None:
        print(f"Table: {printable(args.out)}")
    return 0


def table(found: dict[str, Any], smallest: int) -> tuple[list[str], list[list[str]]]:
    """One row per number or level, one column for all sites and for each."""
    sites = list(next(iter(found.values())).counts)
    counts = next(iter(found.values())).counts
    rows = [["rows", "", *(f"{counts[site]['rows']:,}" for site in sites)]]
    for name, held in found.items():
        for line, cells in lines(held, smallest).items():
            rows.append([name, line, *(cells[site] for site in sites)])
    return ["column", "", *sites], rows


def lines(held: Any, smallest: int) -> dict[str, dict[str, str]]:
    """By what a line tells, the cell of each site."""
    from proxfl.tables.describe import MISSING

    made: dict[str, dict[str, str]] = {}
    if held.numbers:
        few = f"fewer than {smallest}"
        made["mean (sd)"] = {s: spread(n) if n else few for s, n in held.numbers.items()}
        made["median [quartiles]"] = {s: middle(n) if n else few for s, n in held.numbers.items()}
    parts = [part for part in next(iter(held.counts.values())) if part != "rows"]
    for part in parts:
        if part == MISSING and all(counts[part] == 0 for counts in held.counts.values()):
            continue
        made[part] = {site: share(counts, part) for site, counts in held.counts.items()}
    return made


def spread(numbers: dict[str, float]) -> str:
    return f"{numbers['mean']:.4g} ({numbers['sd']:.3g})"


def middle(numbers: dict[str, float]) -> str:
    return f"{numbers['q50']:.4g} [{numbers['q25']:.4g}, {numbers['q75']:.4g}]"


def share(counts: dict[str, int | None], part: str) -> str:
    from proxfl.tables.describe import MISSING

    rows, held, missing = counts["rows"], counts[part], counts[MISSING]
    if held is None:
        return "hidden"
    of = rows if part == MISSING or missing is None or rows is None else rows - missing
    return f"{held:,} ({held / of:.1%})" if of else f"{held:,}"


def as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([csv_cell(c) for c in row] for row in rows)
    return text.getvalue()
