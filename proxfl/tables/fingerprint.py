"""A name for data, made from their content: what a manifest holds in place of the data."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from proxfl.tables.formats import Matrix, is_sparse


def fingerprint(features: Sequence[str], A: Matrix, y: np.ndarray) -> str:
    """A SHA-256 of the content, the same for any file format and any order of the columns.

    It names the data without holding them; but whoever can guess a whole table can confirm it.
    """
    digest = hashlib.sha256(json.dumps(["proxfl table 1", len(y), len(features)]).encode())
    by_column = A.tocsc() if is_sparse(A) else A
    for j in sorted(range(len(features)), key=features.__getitem__):
        rows, values = nonzeros(by_column, j)
        digest.update(json.dumps([features[j], len(rows)]).encode())
        digest.update(rows.astype("<i8").tobytes() + canonical(values))
    digest.update(canonical(y) if y.dtype.kind == "f" else json.dumps(y.tolist()).encode())
    return digest.hexdigest()


def nonzeros(A: Matrix, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Column j, by rows: so that a sparse and a dense table read the same."""
    if is_sparse(A):
        span = slice(A.indptr[j], A.indptr[j + 1])
        rows, values = A.indices[span], A.data[span]
        return rows[values != 0], values[values != 0]
    rows = np.flatnonzero(A[:, j])
    return rows, A[rows, j]


def canonical(values: np.ndarray) -> bytes:
    """Bytes in which 0 has no sign and NaN one form."""
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes()
