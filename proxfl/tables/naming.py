"""Whether numbers or texts only name the rows of a table, or the persons or groups they are of.

    rows      nearly every row has one of its own; or each site has counted its own rows
    groups    each has all its rows of a site next to one another, several as a rule: what was seen
              of a person is written down together, what is measured is not
    words     the column is called so

Years and sorted columns have their rows together, too: calendar years are told by their numbers.
"""

import re
from collections.abc import Sequence

import numpy as np

from proxfl.tables.formats import is_sparse, quoted
from proxfl.tables.sites import Table

# A column in which so many rows have a value of their own tells who they are, not what; and how
# many rows, or groups, it takes to say so.
NEARLY_ALL, ENOUGH = 0.95, 20
YEARS = (1700, 2100)
WORDS = ("id", "patient", "person", "subject")
ROWS, GROUPS = "nearly every row has a number of its own", "each number has its rows together"


def names_rows(values: np.ndarray) -> bool:
    """Of the numbers or texts of all sites."""
    return len(values) >= ENOUGH and len(np.unique(values)) >= NEARLY_ALL * len(values)


def counts_rows(parts: Sequence[np.ndarray]) -> bool:
    """Of whole numbers by site: none comes twice, and they reach little further than that needs."""
    near = lambda values: np.ptp(values) < 2 * len(values)
    return all(names_rows(values) and near(values) for values in parts)


def names_groups(parts: Sequence[np.ndarray]) -> bool:
    """Of whole numbers by site."""
    held = np.unique(np.concatenate(parts))
    if len(held) < ENOUGH or (YEARS[0] <= held[0] and held[-1] <= YEARS[1]):
        return False
    together = sum(len(np.unique(values)) for values in parts)
    sizes = np.concatenate([rows_in_a_row(values) for values in parts])
    return len(sizes) == together and bool(np.median(sizes) > 1)


def rows_in_a_row(values: np.ndarray) -> np.ndarray:
    """How many rows have the same value, before the next has another."""
    return np.diff(np.flatnonzero(np.r_[True, values[1:] != values[:-1], True]))


def called_so(name: str) -> bool:
    """By its last word, where words end at signs, digits and capitals."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return bool(words) and words[-1].lower() in WORDS


def seem_names(tables: Sequence[Table]) -> str:
    """A sentence that names the features that may only name rows; empty, if there are none."""
    if any(is_sparse(table.A) for table in tables):
        return ""
    found: dict[str, list[str]] = {ROWS: [], GROUPS: []}
    columns = range(tables[0].A.shape[1])  # none, where they are only described
    for j, name in zip(columns, tables[0].features, strict=False):
        parts = [column[~np.isnan(column)] for column in (table.A[:, j] for table in tables)]
        if all((values == np.floor(values)).all() for values in parts):
            found[ROWS] += [name] * (names_rows(np.concatenate(parts)) or counts_rows(parts))
            found[GROUPS] += [name] * names_groups(parts)
    return " and ".join(f"{what} in {quoted(names)}" for what, names in found.items() if names)
