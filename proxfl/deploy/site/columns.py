"""The columns of a site's table as a study uses them: what its numbers can be about.

A feature, a target, an offset and the weights of rows all enter sums over rows, so a rule on one
of them is a rule on all.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from proxfl.tables import Table
from proxfl.tables.formats import is_sparse
from proxfl.train.spec import Spec

FEATURE, TARGET = "feature", "target"  # other roles are the keys of a problem
BESIDE = ("offset", "exposure", "row_weights")


class Used(NamedTuple):
    """A column, by what it is used as."""

    role: str
    name: str
    values: np.ndarray


def used_columns(table: Table, spec: Spec) -> Iterator[Used]:
    """All of them; what a study describes are features."""
    names = (table.target,) if isinstance(table.target, str) else table.target
    if table.target:
        for name, values in zip(names, table.y.reshape(table.rows, -1).T, strict=True):
            yield Used(TARGET, name, values)
    roles = {getattr(spec, key): key for key in BESIDE}
    for name, values in table.beside.items():
        yield Used(roles.get(name, FEATURE), name, values)
    by_column = table.A.tocsc() if is_sparse(table.A) else table.A
    for j in range(by_column.shape[1]):
        dense = by_column[:, [j]].toarray()[:, 0] if is_sparse(table.A) else by_column[:, j]
        yield Used(FEATURE, table.features[j], dense)
