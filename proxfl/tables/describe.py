"""Table one: what the columns of all sites hold, from counts, sums and histograms of each site.

Means and standard deviations are exact; a quantile is off by at most the width of a cell, which is
told: a hundredth of a standard deviation at most, and nothing for whole numbers of little spread.
What sites are asked, and what they keep to themselves, is in `survey.py`.

Over files all counts are known here, and small ones are hidden where they are shown. A real site
hides its own; what is overall is then known if no site has hidden any of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.tables.hiding import OVERALL, Counts, hidden
from proxfl.tables.schema import Schema
from proxfl.tables.survey import Site, Sums, Surveyed, described_table, parts_of, survey

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Described:
    """One column. By site, `overall` first: counts by level, None where hidden; or numbers."""

    kind: str
    counts: dict[str, Counts]
    numbers: dict[str, dict[str, float] | None]  # None: too few rows
    resolution: float | None = None  # of the quantiles

    def to_dict(self) -> dict[str, Any]:
        sites = {
            site: {"counts": counts} | ({"numbers": self.numbers[site]} if self.numbers else {})
            for site, counts in self.counts.items()
        }
        overall = sites.pop(OVERALL)
        return {
            "kind": self.kind,
            "resolution": self.resolution,
            OVERALL: overall,
            "sites": sites,
        }


def describe(paths: Sequence[Path], schema: Schema, smallest: int) -> dict[str, Described]:
    """Every column of the schema, as files of sites have it."""
    sites = {path.stem: Site(schema, described_table(path, schema), 1, 0.0) for path in paths}
    ask = lambda kind, about, size: {name: site(kind, about) for name, site in sites.items()}
    found = survey(schema, ask)
    return {name: over_files(told, smallest) for name, told in found.items()}


def over_files(told: Surveyed, smallest: int) -> Described:
    counts: Any = with_rows(told)
    return described(told, hidden(counts, smallest, parts_of(told.kind)), smallest)


def over_sites(told: Surveyed) -> Described:
    """As real sites tell it, who have hidden what is small, or as their sums do."""
    counts = with_rows(told)
    add = lambda numbers: None if None in numbers else sum(numbers)
    parts = ("rows", *parts_of(told.kind))
    total = {part: add([held[part] for held in counts.values()]) for part in parts}
    return described(told, {OVERALL: total} | counts, 1)


def with_rows(told: Surveyed) -> dict[str, Counts]:
    return {site: {"rows": told.rows[site]} | held for site, held in told.counts.items()}


def described(told: Surveyed, counts: dict[str, Counts], smallest: int) -> Described:
    if not told.sums:
        return Described(told.kind.name, counts, {})
    sums, edges = {OVERALL: added(list(told.sums.values())), **told.sums}, told.edges
    few = too_few({site: one.number for site, one in told.sums.items()}, smallest)
    numbers = {s: None if s in few else summary(one, edges) for s, one in sums.items()}
    width = edges[1] - edges[0]
    resolution = float(width) if edges.dtype.kind == "f" else float(width - 1)
    return Described(told.kind.name, counts, numbers, resolution)


def too_few(number: dict[str, int], smallest: int) -> set[str]:
    """Whose numbers are not told: too few, and others by which the sums of those would follow."""
    order = sorted(number, key=lambda site: number[site])
    rows, few = 0, {site for site in order if not number[site]}
    for site in order:
        if number[site] < smallest or 0 < rows < smallest:
            few.add(site)
            rows += number[site]
    return few | ({OVERALL} if rows < smallest and (rows or not any(number.values())) else set())


def added(sums: Sequence[Sums]) -> Sums:
    """The sums of several sites together; squares are around the mean of all."""
    number = sum(one.number for one in sums)
    mean = sum(one.number * one.mean for one in sums) / max(number, 1)
    squares = sum(one.squares + one.number * (one.mean - mean) ** 2 for one in sums)
    return Sums(number, mean, squares, np.sum([one.cells for one in sums], axis=0))


def summary(sums: Sums, edges: np.ndarray) -> dict[str, float]:
    """Mean, standard deviation (of a sample) and quantiles."""
    spread = np.sqrt(sums.squares / max(sums.number - 1, 1))
    up_to = np.cumsum(sums.cells) / max(sums.number, 1)
    at = {f"q{round(100 * q):02}": quantile(up_to, edges, q) for q in QUANTILES}
    return {"mean": float(sums.mean), "sd": float(spread), **at}


def quantile(up_to: np.ndarray, edges: np.ndarray, q: float) -> float:
    """Where the share q of rows is below, evenly within a cell; of whole numbers its lower end.

    `up_to` has the share of rows below each edge.
    """
    cell = int(np.searchsorted(up_to, q * (1 - 1e-12), side="left"))
    cell = min(max(cell, 1), len(edges) - 1)
    if edges.dtype.kind != "f":
        return float(edges[cell - 1])
    below, share = up_to[cell - 1], up_to[cell] - up_to[cell - 1]
    part = (q - below) / share if share > 0 else 0.0
    return float(edges[cell - 1] + part * (edges[cell] - edges[cell - 1]))
