"""The columns of a site's table as a study uses them: what its numbers can be about.

A feature, a target, an offset and the weights of rows all enter sums over rows, so a rule on one
of them is a rule on all. Sums are over c and over 1, and so over c - a for every number a: where c
is a but in one row, that row is told. Of weights this is so between a study with them and one
without, so there it is about all rows, also those whose weight is 0.

An ordered column is as a study wrote its list of levels: in another study, with a level that nobody
has before the last one, it is the same column but in the rows of the last. So each level counts as
a column of its own.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from proxfl.tables import Table
from proxfl.tables.formats import is_sparse
from proxfl.tables.rows import with_values
from proxfl.train.agreement import offsets, row_counts
from proxfl.train.spec import Spec, beside_of, schema_of

FEATURE, TARGET, WEIGHTS = "feature", "target", "row_weights"
BESIDE = ("offset", "exposure", WEIGHTS)  # the keys of a problem
SHIFT = "shift"  # what is added to scores


class Used(NamedTuple):
    """A column, by what it is used as."""

    role: str
    name: str
    values: np.ndarray

    def counts(self, weights: np.ndarray) -> np.ndarray:
        """How much each row counts where this column does."""
        return np.ones_like(weights) if self.role == WEIGHTS else weights


def used_columns(table: Table, spec: Spec) -> Iterator[Used]:
    """All of them, and where rows are at each level of those that are ordered."""
    schema = schema_of(spec)
    ranked = {name for name, kind in schema.columns.items() if kind.ranked} if schema else ()
    for used in columns_in(table, spec):
        yield used
        if used.name in ranked and used.values.dtype.kind == "f":
            for place in np.unique(used.values[~np.isnan(used.values)]):
                yield Used(FEATURE, f"{used.name} at {place:g}", (used.values == place) * 1.0)


def columns_in(table: Table, spec: Spec) -> Iterator[Used]:
    """Those of the table; what a study describes are features."""
    names = (table.target,) if isinstance(table.target, str) else table.target
    if table.target:
        for name, values in zip(names, table.y.reshape(table.rows, -1).T, strict=True):
            yield Used(TARGET, name, values)
    for key in BESIDE:  # one column may be several of these
        if (name := getattr(spec, key)) is not None:
            yield Used(key, name, table.beside[name])
    shift = offsets(table, spec)
    if shift is not None and spec.exposure is not None:  # by its logarithm, and the offset with it
        yield Used(SHIFT, spec.exposure, shift)
    for name, values in table.beside.items():
        if name not in beside_of(spec):
            yield Used(FEATURE, name, values)
    by_column = table.A.tocsc() if is_sparse(table.A) else table.A
    for j in range(by_column.shape[1]):
        dense = by_column[:, [j]].toarray()[:, 0] if is_sparse(table.A) else by_column[:, j]
        yield Used(FEATURE, table.features[j], dense)


def apart_from_a_number(values: np.ndarray, weights: np.ndarray) -> float:
    """How many rows of equal weight say as much as those behind a sum of w (c - a), for the number
    a by which they are fewest; 0 where one number is the value of all.

    (sum w |c - a|)^2 / sum w^2 (c - a)^2 is least where a is one of the values: between two of
    them the first root is linear, and the second convex.
    """
    if not len(values) or values.min() == values.max():
        return 0.0
    w = weights / weights.max()
    c = values / np.abs(values).max()
    c = c - np.average(c, weights=w**2)  # so that no large number is taken from another below
    order = np.argsort(c)
    c, w = c[order], w[order]
    below, of_below = np.cumsum(w), np.cumsum(w * c)
    first = c * (2 * below - below[-1]) - 2 * of_below + of_below[-1]
    second = (w**2 * c**2).sum() + c**2 * (w**2).sum()
    return float((first**2 / second).min())


def row_sets(table: Table, spec: Spec, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows that count, by these names; and the same with what they are used with, by use.

    Where one of these sets is almost that of another study, so are the sums over it.
    """
    here = row_counts(table, spec) > 0
    yield np.sort(rows[here])
    used: dict[str, list[np.ndarray]] = {}
    for role, _, values in used_columns(table, spec):
        if role != FEATURE:
            used.setdefault(role, []).append(values[here])
    for role, columns in used.items():
        yield np.sort(with_values(rows[here], role, columns))
