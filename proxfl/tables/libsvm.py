"""LIBSVM files: a label, then index:value for whatever is not zero in the row.

The features are named x1, x2, ... (and x0, if any row has it) after the index in the file, and the
target by whoever reads it. A file says nothing of features that are zero in all of its rows.
"""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.errors import InputError
from proxfl.tables.formats import Columns, Matrix


def read_libsvm(path: Path, wanted: Sequence[str] | None) -> Columns:
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        raise InputError(
            f"{path}: reading LIBSVM needs scikit-learn; pip install 'proxfl[sklearn]'."
        ) from None

    load: Any = load_svmlight_file  # its types deny zero_based=True
    # Indices as they stand: a guess whether they start at 0 or 1 could differ from site to site.
    parse = lambda file: load(file, zero_based=True)
    try:
        A, y = parse(str(path))
    except ValueError:
        raise InputError(
            f"{path}: line {first_wrong_line(path, parse)} is not LIBSVM; write a number, then "
            "index:value pairs by rising index."
        ) from None
    first = 0 if (A.indices == 0).any() else 1
    features = tuple(f"x{j}" for j in range(first, A.shape[1]))
    A, absent = A[:, first:], np.isnan(y)
    if wanted is None:
        return Columns(features, A, y, absent)
    return Columns(tuple(wanted), spread(A, features, wanted), y, absent)


def first_wrong_line(path: Path, parse: Callable[[Any], Any]) -> int:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            parse(io.BytesIO(line))
        except ValueError:
            return number
    return 1


def spread(A: Matrix, features: Sequence[str], wanted: Sequence[str]) -> Matrix:
    """A sparse A with its columns where they are wanted, and zero where it has none."""
    from scipy.sparse import csr_matrix

    place = {name: j for j, name in enumerate(wanted)}
    to = np.array([place.get(name, -1) for name in features], int)
    cells = A.tocoo()
    kept = to[cells.col] >= 0
    entries = (cells.data[kept], (cells.row[kept], to[cells.col[kept]]))
    return csr_matrix(entries, shape=(A.shape[0], len(wanted)))
