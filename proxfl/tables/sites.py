"""One table per site: features as numbers, a target, and a fingerprint in place of the data.

Missing values are refused unless the caller chooses: `drop` leaves out the rows that have one and
counts them; `mean` leaves NaN in `A`, because the mean to put there is that of all sites, and only
the caller can ask them for their counts and sums. A row without a target may only be dropped.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proxfl.errors import InputError
from proxfl.tables.formats import FRAMES, Columns, Matrix, is_sparse, quoted, read_frame
from proxfl.tables.libsvm import read_libsvm, spread

MISSING = ("refuse", "drop", "mean")
LIBSVM = (".svm", ".libsvm", ".txt")


@dataclass(frozen=True, eq=False)
class Table:
    """One site's data. `A` is a dense array, or a scipy.sparse.csr_matrix from a LIBSVM file."""

    name: str
    source: str
    target: str
    features: tuple[str, ...]
    A: Matrix
    y: np.ndarray
    fingerprint: str
    dropped: int = 0

    @property
    def rows(self) -> int:
        return len(self.y)

    @property
    def dense(self) -> np.ndarray:
        return self.A.toarray() if is_sparse(self.A) else self.A


def read_sites(
    paths: Sequence[str | os.PathLike] | str | os.PathLike, target: str, missing: str = "refuse"
) -> list[Table]:
    """One table per file, a folder being all the files in it, with the columns of the first file.

    LIBSVM files do not mention what is zero: features that other sites have become columns of it.
    """
    files = files_in([paths] if isinstance(paths, str | os.PathLike) else paths)
    return align([read_site(file, target, missing) for file in files])


def read_site(
    path: str | os.PathLike,
    target: str,
    missing: str = "refuse",
    wanted: Sequence[str] | None = None,
) -> Table:
    """The table in one file; its name is that of the file, without what follows the last dot.

    Features are all columns but the target, or only those wanted, in that order.
    """
    path = Path(path)
    columns, dropped = settle(path, target, read_columns(path, target, wanted), missing)
    features, A, y, _ = columns
    return Table(path.stem, str(path), target, features, A, y, fingerprint(features, A, y), dropped)


def read_features(
    path: str | os.PathLike, features: Sequence[str], missing: str = "refuse"
) -> Matrix:
    """The named columns of a file, in that order, whatever else it holds: rows to predict.

    No row is ever dropped; with `mean`, NaN is left for the caller to fill.
    """
    path = Path(path)
    columns = read_columns(path, None, features)
    untargeted = Columns(columns.features, columns.A, np.zeros(0), np.zeros(0, bool))
    return settle(path, "", untargeted, "refuse" if missing == "drop" else missing)[0].A


def read_columns(path: Path, target: str | None, wanted: Sequence[str] | None = None) -> Columns:
    """All columns but the target as features, or only those wanted."""
    refuse_unreadable(path)
    libsvm = path.suffix.lower() in LIBSVM
    columns = read_libsvm(path, wanted) if libsvm else read_frame(path, target, wanted)
    if not columns.A.shape[0]:
        raise InputError(f"{path}: there are no rows of data; leave the file out or fill it.")
    if not columns.features:
        raise InputError(f"{path}: there is no feature beside the target; add columns.")
    return columns


def refuse_unreadable(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the name.")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; name one file in it.")
    if path.suffix.lower() not in (*FRAMES, *LIBSVM):
        raise InputError(
            f"{path}: the name must end in {', '.join(FRAMES)}, or for LIBSVM in "
            f"{', '.join(LIBSVM)}; rename or convert the file."
        )
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; leave it out or fill it.")


def files_in(paths: Iterable[str | os.PathLike]) -> list[Path]:
    """The files meant, in order; hidden files and folders within folders are passed over."""
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(p for p in path.glob("[!.]*") if p.is_file()) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path}: there is no file in this folder; put one there per site.")
        found += inside
    if not found:
        raise InputError("There are no sites; name at least one file or folder.")
    by_name: dict[str, Path] = {}
    for path in found:
        other = by_name.setdefault(path.stem, path)
        if other is not path:
            raise InputError(f"{path}: the site {path.stem!r} is already {other}; rename one file.")
    return found


def settle(path: Path, target: str, columns: Columns, missing: str) -> tuple[Columns, int]:
    """The columns without what may not be missing, and the number of rows that cost."""
    if missing not in MISSING:
        raise InputError(f"missing must be one of {', '.join(MISSING)}, got {missing!r}.")
    features, A, y, absent = columns
    refuse_infinite(path, target, columns)
    rows, cols = cells(A, np.isnan)
    if rows.size and missing == "refuse":
        more = f", the first of {rows.size} missing values" if rows.size > 1 else ""
        raise InputError(
            f"{path}: column {features[cols[0]]!r} has no value in data row {rows[0] + 1}{more}; "
            "fill it in, or choose missing = 'drop' or 'mean'."
        )
    if absent.any() and missing != "drop":
        more = f", the first of {absent.sum()} such rows" if absent.sum() > 1 else ""
        raise InputError(
            f"{path}: the target {target!r} has no value in data row {absent.argmax() + 1}{more}; "
            "fill it in, or choose missing = 'drop'."
        )
    if missing != "drop":
        return columns, 0
    kept = ~absent
    kept[rows] = False
    if not kept.any():
        raise InputError(f"{path}: every row misses a value, so dropping them leaves none.")
    return Columns(features, A[kept], y[kept], absent[kept]), int((~kept).sum())


def refuse_infinite(path: Path, target: str, columns: Columns) -> None:
    rows, cols = cells(columns.A, np.isinf)
    in_target = np.isinf(columns.y) if columns.y.dtype.kind == "f" else np.zeros(0, bool)
    if rows.size or in_target.any():
        name = columns.features[cols[0]] if rows.size else target
        where = f"data row {1 + (rows[0] if rows.size else in_target.argmax())}"
        raise InputError(f"{path}: column {name!r} is infinite in {where}; correct the value.")


def cells(A: Matrix, test: Callable) -> tuple[np.ndarray, np.ndarray]:
    """The rows and columns where the test holds, first rows first; it must not hold for zero."""
    if not is_sparse(A):
        rows, cols = np.nonzero(test(A))
        return rows, cols
    entries = A.tocoo()
    chosen = test(entries.data)
    return entries.row[chosen], entries.col[chosen]


def align(tables: Sequence[Table]) -> list[Table]:
    """The same tables with their columns in one order, if they have the same ones."""
    first = next((table for table in tables if not is_sparse(table.A)), None)
    every = {name for table in tables for name in table.features}
    by_index = lambda name: int(name.removeprefix("x"))  # all are LIBSVM, if none is first
    features = first.features if first else tuple(sorted(every, key=by_index))
    for table in tables:
        refuse_other_kind(table, tables[0])
        if first:
            refuse_other_columns(table, first)
    return [arranged(table, features) for table in tables]


def refuse_other_kind(table: Table, first: Table) -> None:
    """Refuse text where another site has numbers: the same label would count as two."""
    is_number = table.y.dtype.kind == "f"
    if is_number != (first.y.dtype.kind == "f"):
        raise InputError(
            f"{table.source}: the target {table.target!r} is {'numbers' if is_number else 'text'}, "
            f"unlike in {first.source}; write it in one way at all sites."
        )


def refuse_other_columns(table: Table, first: Table) -> None:
    held, known = set(table.features), set(first.features)
    extra = [name for name in table.features if name not in known]
    lacking = [name for name in first.features if name not in held and not is_sparse(table.A)]
    parts = [f"lacks {quoted(lacking)}"] if lacking else []
    parts += [f"has extra {quoted(extra)}"] if extra else []
    if parts:
        raise InputError(
            f"site {table.source} {' and '.join(parts)} compared with {first.source}; give every "
            "site the same columns."
        )


def arranged(table: Table, features: tuple[str, ...]) -> Table:
    if table.features == features:
        return table
    if is_sparse(table.A):
        A = spread(table.A, table.features, features)
        return replace(table, features=features, A=A, fingerprint=fingerprint(features, A, table.y))
    place = {name: j for j, name in enumerate(table.features)}
    return replace(table, features=features, A=table.A[:, [place[name] for name in features]])


def fingerprint(features: Sequence[str], A: Matrix, y: np.ndarray) -> str:
    """A SHA-256 of the content, the same for any file format and any order of the columns.

    It names the data without holding them; but whoever can guess a whole table can confirm it.
    """
    digest = hashlib.sha256(json.dumps(["proxfl table 1", len(y), len(features)]).encode())
    by_column = A.tocsc() if is_sparse(A) else A
    for j in sorted(range(len(features)), key=features.__getitem__):
        rows, values = nonzeros_of_column(by_column, j)
        digest.update(json.dumps([features[j], len(rows)]).encode())
        digest.update(rows.astype("<i8").tobytes() + canonical(values))
    digest.update(canonical(y) if y.dtype.kind == "f" else json.dumps(y.tolist()).encode())
    return digest.hexdigest()


def nonzeros_of_column(A: Matrix, j: int) -> tuple[np.ndarray, np.ndarray]:
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
