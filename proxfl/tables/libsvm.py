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

LARGEST_INDEX = 10**6


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
    except (ValueError, OverflowError):
        form = "a number, then index:value pairs by rising index"
        line = first_wrong_line(path, parse)
        raise InputError(f"{path}: line {line} is not LIBSVM; write {form}.") from None
    if A.shape[1] - 1 > LARGEST_INDEX:
        raise InputError(
            f"{path}: there are indices up to {A.shape[1] - 1:,}, where the most is "
            f"{LARGEST_INDEX:,}; number the features that occur from 1."
        )
    first = 0 if (A.indices == 0).any() else 1
    features = tuple(f"x{j}" for j in range(first, A.shape[1]))
    A = A[:, first:] if wanted is None else spread(A[:, first:], features, wanted)
    names = features if wanted is None else tuple(wanted)
    return Columns(names, A, y, np.isnan(y), np.zeros((len(y), 0)))


def first_wrong_line(path: Path, parse: Callable[[Any], Any]) -> int:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            parse(io.BytesIO(line))
        except (ValueError, OverflowError):
            return number
    return 1


def spread(A: Matrix, features: Sequence[str], wanted: Sequence[str]) -> Matrix:
    """A sparse A with its columns where they are wanted, and zero where it has none."""
    from scipy.sparse import csr_matrix, hstack

    place = {name: j for j, name in enumerate(features)}
    padded: Any = hstack([A, csr_matrix((A.shape[0], 1))], format="csr")
    return padded[:, [place.get(name, len(features)) for name in wanted]]
