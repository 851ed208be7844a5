"""Rows known by all their cells, whatever the columns of interest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.tables.files import LIBSVM
from proxfl.tables.formats import read_frame
from proxfl.tables.libsvm import read_libsvm


def row_hashes(path: Path) -> np.ndarray:
    """One number of 64 bits for each data row of a file; rows with equal cells have equal ones."""
    from pandas import util

    by: Any = util  # whose types say nothing

    if path.suffix.lower() in LIBSVM:
        columns = read_libsvm(path, None)
        A = columns.A.tocsr()
        A.sort_indices()
        parts = (A[i] for i in range(A.shape[0]))
        cells = [
            repr((y, a.indices.tolist(), a.data.tolist()))
            for a, y in zip(parts, columns.y, strict=True)
        ]
        return by.hash_array(np.array(cells, object))
    frame = read_frame(path, None, None)
    return by.hash_pandas_object(frame[sorted(frame.columns)], index=False).to_numpy()


def with_values(rows: np.ndarray, about: str, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Such numbers for the same rows, each with its values of some columns, and what those are."""
    import pandas as pd
    from pandas import util

    by: Any = util
    held = {str(j): values for j, values in enumerate([rows, *columns])}
    return by.hash_pandas_object(pd.DataFrame(held).assign(about=about), index=False).to_numpy()
