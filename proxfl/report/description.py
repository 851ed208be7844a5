"""The folder of a description, and table one as rows; whole or not there.

description.json    every column, of all sites and, where they told it, of each
table-one.csv       the same as a table
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from proxfl.console.words import csv_text, number
from proxfl.storage import documents
from proxfl.storage.files import whole_folder, write_text
from proxfl.tables.describe import Described
from proxfl.tables.survey import MISSING

SUMMARY, TABLE = "description.json", "table-one.csv"


class Summary(TypedDict):
    """What is read of the summary."""

    smallest_cell: int
    masked: bool
    heads: list[str]
    rows: list[list[str]]


def write(where: Path, found: Mapping[str, Described], about: dict[str, Any]) -> None:
    """`about` has `smallest_cell`, and what else is to be known."""
    heads, rows = table(found, about["smallest_cell"])
    with whole_folder(where) as made:
        documents.write_json(made / SUMMARY, summary(found, about) | {"heads": heads, "rows": rows})
        write_text(made / TABLE, csv_text([heads, *rows]))


def summary(found: Mapping[str, Described], about: dict[str, Any]) -> dict[str, Any]:
    return {**about, "columns": {name: held.to_dict() for name, held in found.items()}}


def table(found: Mapping[str, Described], smallest: int) -> tuple[list[str], list[list[str]]]:
    """One row per number or level, one column for all sites and for each."""
    sites = list(next(iter(found.values())).counts)
    counts = next(iter(found.values())).counts
    rows = [["rows", "", *(f"{counts[site]['rows']:,}" for site in sites)]]
    for name, held in found.items():
        for line, cells in lines(held, smallest).items():
            rows.append([name, line, *(cells[site] for site in sites)])
    return ["column", "", *sites], rows


def lines(held: Described, smallest: int) -> dict[str, dict[str, str]]:
    """By what a line tells, the cell of each site."""
    made: dict[str, dict[str, str]] = {}
    if held.numbers:
        few = f"fewer than {smallest}"
        made["mean (sd)"] = {s: spread(n) if n else few for s, n in held.numbers.items()}
        told = lambda numbers: middle(numbers, held.resolution or 0.0)
        made["median [quartiles]"] = {s: told(n) if n else few for s, n in held.numbers.items()}
    parts = [part for part in next(iter(held.counts.values())) if part != "rows"]
    for part in parts:
        if part == MISSING and all(counts[part] == 0 for counts in held.counts.values()):
            continue
        made[part] = {site: share(counts, part) for site, counts in held.counts.items()}
    return made


def spread(numbers: dict[str, float]) -> str:
    return f"{number(numbers['mean'])} ({number(numbers['sd'], 3)})"


def middle(numbers: dict[str, float], resolution: float) -> str:
    """Without digits below the resolution, which would be those of a cell and not of the rows."""
    places = -math.floor(math.log10(resolution)) if resolution > 0 else 12
    low, half, high = (number(round(numbers[q], places)) for q in ("q25", "q50", "q75"))
    return f"{half} [{low}, {high}]"


def share(counts: dict[str, int | None], part: str) -> str:
    rows, held, missing = counts["rows"], counts[part], counts[MISSING]
    if held is None:
        return "hidden"
    of = rows if part == MISSING or missing is None or rows is None else rows - missing
    return f"{held:,} ({held / of:.1%})" if of else f"{held:,}"


def notes(about: Mapping[str, Any]) -> str:
    """What is to be known of a description of real sites."""
    fewest = about["smallest_cell"]
    text = (
        f"Sites tell what {fewest} rows or more of theirs stand behind, or as many as their policy "
        "says: few gaps in numbers are filled with the mean, small cells of quantiles are joined."
    )
    if about["masked"]:
        return (
            f"{text} Under masks there is nothing by site, and small counts of a site are not in."
        )
    return f"{text} What a site hides is not told overall."
