"""Files as columns with names: CSV, Parquet and NPZ; and data frames, which are so already.

CSV      one line of names, then a line for each row, in UTF-8; empty cells, NA and NaN are missing.
Parquet  needs the extra `parquet`; an index that pandas stored is not a column.
NPZ      arrays X [rows, cols] and y, names of the columns of X in `features` or else x1, x2, ...,
         and the target takes the name asked for; or one 1-D array per column. Never any pickle.

A sentence about a file names its columns and its data rows, counted from 1 without the header, but
quotes no value: the file may be private where the sentence is read.
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proxfl.errors import InputError
from proxfl.tables.values import floats

# pandas and SciPy are imported when a file is read: the command line answers --help without them.
Frame = Any
Texts = Collection[str] | None
Matrix = Any  # float64 [rows, cols]: a NumPy array, or a scipy.sparse.csr_matrix from LIBSVM


# What else may separate columns, of which a name then is all names.
MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, eq=False)
class InMemory:
    """A data frame under the name of its site, read as a file would be; its index is no column."""

    stem: str
    frame: Frame

    def __str__(self) -> str:
        return self.stem


Source = Path | InMemory
Given = str | os.PathLike | InMemory


def source_of(given: Given) -> Source:
    return given if isinstance(given, InMemory) else Path(given)


def is_sparse(A: Matrix) -> bool:
    return not isinstance(A, np.ndarray)


def filled(A: Matrix, fill: np.ndarray) -> Matrix:
    """The features with a value for each column where one is missing; sparse ones stay so."""
    if not is_sparse(A):
        return np.where(np.isnan(A), fill, A)
    A = A.tocsr(copy=True)
    A.data = np.where(np.isnan(A.data), fill[A.indices], A.data)
    return A


class Columns(NamedTuple):
    """What a file holds: features, NaN where missing, and the target as numbers or as text.

    `absent` marks the rows without a target; whatever `y` holds there means nothing. Columns that
    are neither are `beside`, as numbers.
    """

    features: tuple[str, ...]
    A: Matrix
    y: np.ndarray
    absent: np.ndarray
    beside: np.ndarray


@contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Turn a reader's own error into a sentence; its text is dropped, since it may quote values."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"{path}: the text is not UTF-8; save it so.") from None
    except Exception:  # readers of others' formats raise what they like
        raise InputError(f"{path}: this cannot be read as {kind}; check the file.") from None


def read_frame(path: Source, target: str | None, texts: Texts = frozenset()) -> Frame:
    """The columns of a file by name; those in `texts` (None: all) as they stand, if it is CSV."""
    if isinstance(path, InMemory):
        names = distinct(path, list(path.frame.columns), target)
        return path.frame.set_axis(names, axis=1).reset_index(drop=True)
    return FRAMES[path.suffix.lower()](path, target, texts)


def quoted(names: Sequence[str], most: int = 5) -> str:
    """At most a few names, for a sentence."""
    few = ", ".join(repr(str(name)) for name in names[:most])
    return few if len(names) <= most else f"{few} and {len(names) - most} more"


def distinct(path: Source, names: Sequence[Any], target: str | None) -> list[str]:
    """Column names without outer spaces, if the target is there, none is empty and none twice."""
    stripped = [str(name).strip() for name in names]
    if target is not None and target not in stripped:
        # Only near names are listed: in a file without a header they would be a row of data.
        near = get_close_matches(target.lower(), [name.lower() for name in stripped])
        alike = [name for name in stripped if name.lower() in near]
        of_file = ", that the first line holds the column names, and that commas separate them"
        hint = f" among {len(stripped)}; check the target"
        hint += "." if isinstance(path, InMemory) else f"{of_file}."
        hint = f"; did you mean {quoted(alike)}?" if alike else hint
        raise InputError(f"{path}: there is no column {target!r}{hint}")
    if "" in stripped:
        raise InputError(
            f"{path}: column {stripped.index('') + 1} has no name; name it or remove it (pandas "
            "writes such a column unless told index=False)."
        )
    twice = [name for name, times in Counter(stripped).items() if times > 1]
    if twice:
        raise InputError(f"{path}: more than one column is named {quoted(twice)}; rename one.")
    return stripped


def read_csv(path: Path, target: str | None, texts: Texts) -> Frame:
    import pandas as pd

    with readable(path, "CSV"), path.open(newline="", encoding="utf-8-sig") as file:
        header = next(filter(None, csv.reader(file, skipinitialspace=True)), [])
        names = distinct(path, header, target)
        marks = [words for mark, words in MARKS.items() if len(names) == 1 and mark in names[0]]
        if marks:
            raise InputError(
                f"{path}: {marks[0]} seem to separate the columns; save it with commas there, and "
                "with points in numbers."
            )
        as_text = {j: str for j, name in enumerate(names) if texts is None or name in texts}
        how = {"header": None, "skipinitialspace": True, "low_memory": False, "dtype": as_text}
        try:
            frame = pd.read_csv(file, **how, **exact(pd.__version__))
        except pd.errors.EmptyDataError:
            return pd.DataFrame(columns=names, dtype=float)
        except pd.errors.ParserError as error:
            what, line = "a quoted text does not end", re.search(r"in line (\d+)", str(error))
            if line:
                what = f"line {line[1]} after the header has more fields than those before it"
            raise InputError(f"{path}: {what}; check the commas and the quotes.") from None
    if frame.shape[1] != len(names):
        raise InputError(
            f"{path}: the header names {len(names)} columns and data row 1 has {frame.shape[1]} "
            "fields; give each field one name."
        )
    return frame.set_axis(names, axis=1)


def exact(version: str) -> dict[str, Any]:
    """What makes pandas read the nearest number, as Parquet holds it; since 3.1 it always does."""
    major, minor = map(int, version.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


def read_parquet(path: Path, target: str | None, texts: Texts) -> Frame:
    import pandas as pd

    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(
            f"{path}: reading Parquet needs pyarrow; pip install 'proxfl[parquet]'."
        ) from None
    with readable(path, "Parquet"):
        frame = pd.read_parquet(path, engine="pyarrow")
    return frame.set_axis(distinct(path, list(frame.columns), target), axis=1)


def read_npz(path: Path, target: str | None, texts: Texts) -> Frame:
    import pandas as pd

    with readable(path, "NPZ without pickled objects"), path.open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise InputError(f"{path}: this is one bare array; save it with numpy.savez.")
        arrays = {name: np.asarray(stored[name]) for name in stored.files}
    if "X" in arrays and arrays["X"].ndim == 2:
        arrays = named_columns(path, target, arrays)
    names = distinct(path, list(arrays), target)
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise InputError(
            f"{path}: the arrays have shapes {', '.join(map(str, sorted(shapes)))}; save X [rows, "
            "cols] and y [rows], or one 1-D array of equal length for each column."
        )
    return pd.DataFrame(dict(zip(names, arrays.values(), strict=True)))


def named_columns(
    path: Path, target: str | None, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The columns of X by name, and y under the target's."""
    other = sorted(set(arrays) - {"X", "y", "features"})
    if other:
        raise InputError(f"{path}: beside X, y and features there is {quoted(other)}; remove it.")
    X = arrays["X"]
    numbered = [f"x{j + 1}" for j in range(X.shape[1])]
    names = distinct(path, [*arrays.get("features", numbered)], None)
    if len(names) != X.shape[1]:
        raise InputError(
            f"{path}: X has {X.shape[1]} columns and features has {len(names)} names; match them."
        )
    if target in names:
        raise InputError(f"{path}: {target!r} is the target and also in features; rename one.")
    if target is not None and "y" not in arrays:
        raise InputError(f"{path}: there is X but no y; add the target as the array y.")
    columns = dict(zip(names, X.T, strict=True))
    return columns if target is None else columns | {target: arrays["y"]}


FRAMES = {".csv": read_csv, ".parquet": read_parquet, ".npz": read_npz}


def labels(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """A target as float64 if it holds numbers, else as text, and where it is missing."""
    column = column.convert_dtypes() if column.dtype == object else column
    absent = column.isna().to_numpy()
    if column.dtype.kind in "iuf":
        return floats(column), absent
    return column.astype("string").fillna("").to_numpy(str), absent
