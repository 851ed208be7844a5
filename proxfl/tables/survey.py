"""What sites tell for table one: three questions, whose answers add up over sites.

    columns     rows; of each column, the rows of each level and those without a value; of numbers
                also how many there are, their sum, and 1 if any is not whole
    spreads     of numbers, their squares around the mean of all sites
    histograms  of numbers, how many are in each cell around mean and spread of all sites

The cells are some thousand of equal width, from mean - sqrt(19) spreads to as much above it. By
Cantelli's inequality at most a twentieth of any numbers is below, and as many above: quantiles from
5% to 95% are inside. So no cell's edge tells the least or the largest number of any site.

A site tells only what `fewest` rows stand behind. Smaller counts are hidden, with as many others as
it takes that they do not follow (`hiding.py`); fewer gaps than that are filled with the site's
mean, and fewer numbers are not told of; cells of fewer rows are joined with their neighbours.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from proxfl.tables.files import refuse_without_names
from proxfl.tables.formats import Frame, read_frame
from proxfl.tables.hiding import Counts, hidden
from proxfl.tables.kinds import Column, Identifier
from proxfl.tables.schema import Schema, refuse_wrong
from proxfl.tables.sites import LARGEST, Table

COLUMNS, SPREADS, HISTOGRAMS = QUESTIONS = ("columns", "spreads", "histograms")
CELLS = 999  # an odd number: the mean is in the middle of a cell
REACH = 19**0.5  # in spreads
BITS = 36  # of the numbers that cells are made of: as many as masks keep, and some to spare
MISSING = "missing"

Numbers = Mapping[str, np.ndarray]
# A kind of question, what it is about, and how many numbers are asked; answers by site.
Ask = Callable[[str, Numbers, int], Mapping[str, np.ndarray]]


class Sums(NamedTuple):
    """What is told of some numbers; squares are around their own mean."""

    number: int
    mean: float
    squares: float
    cells: np.ndarray


class Surveyed(NamedTuple):
    """What sites told of a column, by site and, where they can be added, overall."""

    kind: Column
    rows: dict[str, int]
    counts: dict[str, Counts]
    sums: dict[str, Sums]  # of numbers
    edges: np.ndarray


def parts_of(kind: Column) -> tuple[str, ...]:
    """What rows of a site are counted by."""
    return (*map(str, kind.classes), MISSING)


def numbers_in(schema: Schema) -> list[str]:
    """The columns that are numbers."""
    is_number = lambda kind: not kind.classes and not isinstance(kind, Identifier)
    return [name for name, kind in schema.columns.items() if is_number(kind)]


def described_table(path: Path, schema: Schema) -> Table:
    """A site's file with its columns as their kinds give them: of identifiers, which are missing.

    A column that is not there is missing in all rows.
    """
    refuse_without_names(path)
    frame = read_frame(path, None, schema.texts)
    held = {name: column_of(path, name, kind, frame) for name, kind in schema.columns.items()}
    told = json.dumps({name: values.tolist() for name, values in held.items()}, sort_keys=True)
    rows, digest = len(frame), hashlib.sha256(told.encode()).hexdigest()
    about = (path.stem, str(path), "", tuple(schema.columns), np.zeros((rows, 0)), np.zeros(rows))
    return Table(*about, digest, beside=held, places=np.arange(rows))


def column_of(path: Path, name: str, kind: Column, frame: Frame) -> np.ndarray:
    if name not in frame.columns:
        is_text = kind.classes and isinstance(kind.classes[0], str)
        absent = True if isinstance(kind, Identifier) else "" if is_text else np.nan
        return np.full(len(frame), absent)
    column = frame[name]
    if isinstance(kind, Identifier):
        return column.isna().to_numpy()
    values, wrong = kind.labels(column)
    if wrong.any() and getattr(kind, "unknown", "refuse") == "reference":
        values, wrong = np.where(wrong, kind.classes[0], values), wrong & False
    if wrong.any():
        refuse_wrong(path, {name: f"{kind.wrong}, first in data row {wrong.argmax() + 1}"})
    beyond = np.abs(values) > LARGEST if values.dtype.kind == "f" else wrong
    if beyond.any():
        refuse_wrong(path, {name: f"is infinite, first in data row {beyond.argmax() + 1}"})
    return values


class Site:
    """A site's answers. Hidden counts are told as `hidden`, which is 0 where answers are summed."""

    def __init__(self, schema: Schema, table: Table, fewest: int, hidden: float):
        self.schema, self.table, self.fewest, self.hidden = schema, table, fewest, hidden
        self.told_of = {name: told_of(table.beside[name], fewest) for name in numbers_in(schema)}

    def __call__(self, kind: str, about: Numbers) -> np.ndarray:
        if kind == COLUMNS:
            return self.columns()
        if kind == SPREADS:
            around = lambda name: ((self.told_of[name] - about[f"mean {name}"]) ** 2).sum()
            return np.array([around(name) for name in self.told_of])
        told = [np.zeros(0)]
        for name, values in self.told_of.items():
            edges = edges_of(about, name)
            place = np.searchsorted(edges, values, side="right")
            told.append(joined(np.bincount(place, minlength=len(edges) + 1), self.fewest))
        return np.concatenate(told).astype(float)

    def columns(self) -> np.ndarray:
        told = [float(self.table.rows)]
        for name, kind in self.schema.columns.items():
            counts = tally(kind, self.table.beside[name])
            shown = hidden({"": counts}, self.fewest, parts_of(kind))[""]
            told += [self.hidden if shown[p] is None else shown[p] for p in parts_of(kind)]
            if name in self.told_of:
                held, raw = self.told_of[name], self.table.beside[name]
                odd = bool((raw[~np.isnan(raw)] % 1 != 0).any()) if held.size else False
                told += [held.size, held.sum(), odd]
        return np.array(told, float)


def tally(kind: Column, values: np.ndarray) -> dict[str, int]:
    """How many rows there are, and how many of each part."""
    counts = {str(label): int((values == label).sum()) for label in kind.classes}
    absent = {"b": lambda: values, "f": lambda: np.isnan(values)}
    missing = absent.get(values.dtype.kind, lambda: values == "")()
    return {"rows": len(values), **counts, MISSING: int(missing.sum())}


def told_of(values: np.ndarray, fewest: int) -> np.ndarray:
    """The numbers that sums are of: with few gaps filled, or none if there are few numbers."""
    gaps = np.isnan(values)
    held = values[~gaps]
    if held.size < fewest:
        return held[:0]
    return np.where(gaps, held.mean(), values) if 0 < gaps.sum() < fewest else held


def joined(cells: np.ndarray, fewest: int) -> np.ndarray:
    """The counts with small cells joined from below until there are `fewest` rows.

    They then count in the last of them if it alone has as many, and where their mean is if not.
    """
    if fewest <= 1:
        return cells
    made, group, last = np.zeros_like(cells), [], 0
    for place in np.flatnonzero(cells):
        group.append(place)
        rows = cells[group]
        if rows.sum() >= fewest:
            last = place if rows[-1] >= fewest else round(rows @ np.array(group) / rows.sum())
            made[last] += rows.sum()
            group = []
    made[last] += cells[group].sum()
    return made


def survey(schema: Schema, ask: Ask) -> dict[str, Surveyed]:
    """Every column of the schema, by what sites tell of it."""
    names = numbers_in(schema)
    sizes = {n: len(parts_of(kind)) + 3 * (n in names) for n, kind in schema.columns.items()}
    ends = np.cumsum([1, *sizes.values()])
    told = ask(COLUMNS, {}, int(ends[-1]))
    rows = {site: int(numbers[0]) for site, numbers in told.items()}
    by_column = {
        name: {site: numbers[start:end] for site, numbers in told.items()}
        for name, start, end in zip(sizes, ends, ends[1:], strict=False)
    }
    moments = {name: {s: a[-3:] for s, a in by_column[name].items()} for name in names}
    total = {name: sum(moments[name].values(), np.zeros(3)) for name in names}
    mean = {name: short(total[name][1] / max(total[name][0], 1)) for name in names}
    squares = ask(SPREADS, {f"mean {n}": np.array(mean[n]) for n in names}, len(names))
    cells = cells_around(total, mean, sum(squares.values(), np.zeros(len(names))))
    edges = {name: edges_of(cells, name) for name in names}
    width = [len(edges[name]) + 1 for name in names]
    counted = ask(HISTOGRAMS, cells, sum(width))
    places = np.cumsum([0, *width])
    found = {}
    for name, kind in schema.columns.items():
        sums, counts = {}, {s: shown(kind, a) for s, a in by_column[name].items()}
        if name in names:
            j = names.index(name)
            for site in told:
                around = (squares[site][j], mean[name], counted[site][places[j] : places[j + 1]])
                sums[site] = sums_of(moments[name][site], *around)
        found[name] = Surveyed(kind, rows, counts, sums, edges.get(name, np.zeros(0)))
    return found


def shown(kind: Column, told: np.ndarray) -> Counts:
    """Counts by part; one below 0 stands for a hidden one."""
    pairs = zip(parts_of(kind), told, strict=False)
    return {part: int(number) if number >= 0 else None for part, number in pairs}


def sums_of(moments: np.ndarray, squares: float, mean: float, cells: np.ndarray) -> Sums:
    number = max(moments[0], 1)
    own = float(moments[1] / number)
    around = max(float(squares - moments[0] * (own - mean) ** 2), 0.0)
    return Sums(int(moments[0]), own, around, cells)


def short(number: float) -> float:
    """Nearly the same, as it also is on the grid of a masked question."""
    part, exponent = np.frexp(number)
    return float(np.ldexp(np.round(np.ldexp(part, BITS)), exponent - BITS))


def cells_around(total: Numbers, mean: Mapping[str, float], squares: np.ndarray) -> Numbers:
    """What the cells of each column of numbers are made of."""
    about: dict[str, np.ndarray] = {}
    for (name, moments), around in zip(total.items(), squares, strict=True):
        spread = np.sqrt(max(float(around), 0.0) / max(moments[0] - 1, 1))
        about |= {f"mean {name}": np.array(mean[name]), f"spread {name}": np.array(short(spread))}
        about |= {f"whole {name}": np.array(int(moments[2] == 0))}
    return about


def edges_of(about: Numbers, name: str) -> np.ndarray:
    """The edges of a column's cells; whole, for whole numbers, with as many in each as it is wide.

    The mean was shortened, so that a column of one value would be outside of its cells, if these
    did not reach further by as much.
    """
    mean, spread, whole = (float(about[f"{part} {name}"]) for part in ("mean", "spread", "whole"))
    half = REACH * spread + abs(mean) * 2.0**-BITS or 1.0
    if not whole or abs(mean) + half > 2.0**53:
        return mean + half * np.linspace(-1.0, 1.0, CELLS + 1)
    low, high = int(np.floor(mean - half)), int(np.ceil(mean + half))
    width = -(-(high - low) // CELLS)
    return np.arange(low, high + width + 1, width)
