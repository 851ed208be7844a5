"""Table one: what the columns of all sites hold, from counts, sums and histograms of each site.

A site tells of a column of numbers its count, mean and sum of squares around it, and counts in
cells; the cells are the same at all sites, at most `CELLS` of equal width over a range that is
rounded outwards, so that its ends are nobody's values. Means and standard deviations are exact; a
quantile is off by at most the width of a cell, which is told. Of levels a site tells how many rows
have each.

Small cells are hidden: counts above 0 and below a limit, and as many others as it takes that none
of them follows from what is shown. Numbers of fewer rows than the limit are not described at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.tables.formats import Frame, read_frame
from proxfl.tables.kinds import Column, Identifier
from proxfl.tables.schema import Schema, refuse_wrong

CELLS = 1000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
OVERALL = "overall"
MISSING = "missing"


@dataclass(frozen=True)
class Described:
    """One column. By site, `overall` first: counts by level, None where hidden; or numbers."""

    kind: str
    counts: dict[str, dict[str, int | None]]
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
    frames = {path: read_frame(path, None, schema.texts) for path in paths}
    return {name: of_column(name, kind, frames, smallest) for name, kind in schema.columns.items()}


def of_column(name: str, kind: Column, frames: Mapping[Path, Frame], smallest: int) -> Described:
    values = {path.stem: read(path, name, kind, frame) for path, frame in frames.items()}
    if isinstance(kind, Identifier):
        counts = {s: {"rows": len(v), MISSING: int(v.sum())} for s, v in values.items()}
        return Described(kind.name, hidden(with_overall(counts), smallest, (MISSING,)), {})
    if kind.classes:
        levels = [str(label) for label in kind.classes]
        counts = {site: tally(levels, held) for site, held in values.items()}
        return Described(kind.name, hidden(with_overall(counts), smallest, (*levels, MISSING)), {})
    counts = {s: {"rows": len(v), MISSING: int(np.isnan(v).sum())} for s, v in values.items()}
    edges = cells(np.concatenate([v[~np.isnan(v)] for v in values.values()]))
    sums = {site: site_sums(held, edges) for site, held in values.items()}
    total = added(list(sums.values()))
    numbers = {
        site: summary(s, edges) if s["count"] >= smallest else None
        for site, s in {OVERALL: total, **sums}.items()
    }
    width = edges[1] - edges[0]
    resolution = float(width) if edges.dtype.kind == "f" else float(width - 1)
    shown = hidden(with_overall(counts), smallest, (MISSING,))
    return Described(kind.name, shown, numbers, resolution)


def read(path: Path, name: str, kind: Column, frame: Frame) -> np.ndarray:
    """A site's column: as labels, as numbers, or of an identifier whether it is missing."""
    if name not in frame.columns:
        return np.ones(len(frame), bool) if isinstance(kind, Identifier) else nothing(kind, frame)
    column = frame[name]
    if isinstance(kind, Identifier):
        return column.isna().to_numpy()
    values, wrong = kind.labels(column)
    if wrong.any() and getattr(kind, "unknown", "refuse") == "reference":
        values, wrong = np.where(wrong, kind.classes[0], values), wrong & False
    if wrong.any():
        refuse_wrong(path, {name: f"{kind.wrong}, first in data row {wrong.argmax() + 1}"})
    return values


def nothing(kind: Column, frame: Frame) -> np.ndarray:
    """What a site without the column has of it."""
    as_text = kind.classes and isinstance(kind.classes[0], str)
    return np.full(len(frame), "" if as_text else np.nan)


def tally(levels: Sequence[str], values: np.ndarray) -> dict[str, int]:
    is_text = values.dtype.kind != "f"
    label = lambda level: level if is_text else float(level)
    counts = {level: int((values == label(level)).sum()) for level in levels}
    absent = values == "" if is_text else np.isnan(values)
    return {"rows": len(values), **counts, MISSING: int(absent.sum())}


def with_overall(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    names = next(iter(counts.values()))
    total = {name: sum(site[name] for site in counts.values()) for name in names}
    return {OVERALL: total} | {site: dict(held) for site, held in counts.items()}


def hidden(
    counts: Mapping[str, Mapping[str, int]], smallest: int, parts: Sequence[str]
) -> dict[str, dict[str, int | None]]:
    """The counts without small cells, nor those by which one could be found.

    Rows of the matrix are what the rows of a site are parted into, columns are the sites; totals of
    both are shown, so no line of it may have a single hidden cell.
    """
    sites = [site for site in counts if site != OVERALL]
    table = np.array([[counts[site][part] for site in sites] for part in parts])
    rest = np.array([counts[site]["rows"] for site in sites]) - table.sum(axis=0)
    table = np.vstack([table, rest])  # of numbers: those that are not missing
    secret = (table > 0) & (table < smallest)
    secret[-1] &= len(parts) == 1
    while True:
        before = secret.copy()
        for line, held in ((secret[i], table[i]) for i in range(len(table))):
            hide_another(line, held)
        for j in range(len(sites)):
            hide_another(secret[:, j], table[:, j])
        if (secret == before).all():
            break
    shown: dict[str, dict[str, int | None]] = {}
    total = {"rows": counts[OVERALL]["rows"]}
    of_all: dict[str, int | None] = {
        part: None if 0 < counts[OVERALL][part] < smallest else counts[OVERALL][part]
        for part in parts
    }
    shown[OVERALL] = {**total, **of_all}
    for j, site in enumerate(sites):
        found = {p: None if secret[i, j] else int(table[i, j]) for i, p in enumerate(parts)}
        shown[site] = {"rows": counts[site]["rows"], **found}
    return shown


def hide_another(secret: np.ndarray, held: np.ndarray) -> None:
    """In a line whose sum is known, one hidden cell is none: hide the smallest other, too."""
    if secret.sum() == 1 and len(held) > 1:
        others = np.where(secret | (held == 0), np.inf, held)
        # A line with nothing else in it tells its only cell by its sum, whatever is hidden.
        if np.isfinite(others).any():
            secret[np.argmin(others)] = True


def cells(values: np.ndarray) -> np.ndarray:
    """The edges of equal cells over all values, whose ends are round numbers.

    They are whole, and a cell holds as many whole numbers as it is wide, if all values are whole.
    """
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    step = 10.0 ** np.floor(np.log10(max(high - low, abs(high) * 1e-12, 1e-300)))
    first, last = np.floor(low / step), np.floor(high / step) + 1
    if (values == np.floor(values)).all() and max(abs(low), abs(high)) < 2**53:
        first, last = int(first * max(step, 1.0)), int(np.ceil(last * step)) + 1
        return np.arange(first, last + 1, -(-(last - first) // CELLS))
    return step * np.linspace(first, last, CELLS + 1)


def site_sums(values: np.ndarray, edges: np.ndarray) -> dict[str, Any]:
    """What a site tells of a column of numbers."""
    held = values[~np.isnan(values)]
    mean = held.mean() if held.size else 0.0
    return {
        "count": held.size,
        "mean": mean,
        "squares": ((held - mean) ** 2).sum(),
        "cells": np.bincount(np.searchsorted(edges, held, side="right"), minlength=len(edges) + 1),
    }


def added(sums: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of several sites together; squares are around the mean of all."""
    count = sum(s["count"] for s in sums)
    mean = sum(s["count"] * s["mean"] for s in sums) / max(count, 1)
    squares = sum(s["squares"] + s["count"] * (s["mean"] - mean) ** 2 for s in sums)
    total = np.sum([s["cells"] for s in sums], axis=0)
    return {"count": count, "mean": mean, "squares": squares, "cells": total}


def summary(sums: Mapping[str, Any], edges: np.ndarray) -> dict[str, float]:
    """Mean, standard deviation (of a sample) and quantiles."""
    spread = np.sqrt(sums["squares"] / max(sums["count"] - 1, 1))
    up_to = np.cumsum(sums["cells"]) / max(sums["count"], 1)
    at = {f"q{round(100 * q):02}": quantile(up_to, edges, q) for q in QUANTILES}
    return {"mean": float(sums["mean"]), "sd": float(spread), **at}


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
