"""One table per site: features as numbers, a target, and a fingerprint in place of the data.

Missing values are refused unless the caller chooses: `drop` leaves out the rows that have one and
counts them; `mean` leaves NaN in `A`, because the mean to put there is that of all sites, and only
the caller can ask them for their counts and sums. A row without a target may only be dropped.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from proxfl.errors import InputError
from proxfl.tables import design
from proxfl.tables.design import ALL, Wanted, read_design
from proxfl.tables.files import LIBSVM, files_in, refuse_unreadable, refuse_without_names
from proxfl.tables.formats import (
    Columns,
    Frame,
    Given,
    InMemory,
    Matrix,
    Source,
    is_sparse,
    quoted,
    read_frame,
    source_of,
)
from proxfl.tables.libsvm import read_libsvm, spread
from proxfl.tables.schema import Schema

LARGEST = 1e100
SPARSE = 4  # times as many cells as values that are not zero: from there on zeros are left out
MISSING = ("refuse", "drop", "mean")
Target = str | Sequence[str]  # the column to predict, or several


@dataclass(frozen=True, eq=False)
class Table:
    """One site's data. `A` is a dense array, or a scipy.sparse.csr_matrix from a LIBSVM file."""

    name: str
    source: str
    target: str | tuple[str, ...]
    features: tuple[str, ...]
    A: Matrix
    y: np.ndarray
    fingerprint: str
    dropped: int = 0
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)  # other columns, by name
    places: np.ndarray | None = None  # which data row of its file each row is, where there is one

    @property
    def rows(self) -> int:
        return len(self.y)

    def only(self, chosen: np.ndarray) -> "Table":
        """The table of some of its rows."""
        beside = {name: values[chosen] for name, values in self.beside.items()}
        places = None if self.places is None else self.places[chosen]
        return replace(self, A=self.A[chosen], y=self.y[chosen], beside=beside, places=places)

    @property
    def stays_sparse(self) -> bool:
        """Whether so few of its values are not zero that only those are held."""
        return is_sparse(self.A) and SPARSE * self.A.nnz <= self.A.shape[0] * self.A.shape[1]

    @property
    def dense(self) -> np.ndarray:
        return self.A.toarray() if is_sparse(self.A) else self.A


def read_sites(
    paths: Sequence[str | os.PathLike] | str | os.PathLike,
    target: Target,
    missing: str = "refuse",
    wanted: Wanted = ALL,
) -> list[Table]:
    """One table per file, a folder being all the files in it, with the columns of the first file.

    LIBSVM files do not mention what is zero: features that other sites have become columns of it.
    """
    files = files_in([paths] if isinstance(paths, str | os.PathLike) else paths)
    return align([read_site(file, target, missing, wanted) for file in files])


def read_frames(
    frames: Mapping[str, Frame], target: Target, missing: str = "refuse", wanted: Wanted = ALL
) -> list[Table]:
    """The same of data frames, by the names of their sites."""
    sources = (InMemory(name, frame) for name, frame in frames.items())
    return align([read_site(source, target, missing, wanted) for source in sources])


def read_site(path: Given, target: Target, missing: str = "refuse", wanted: Wanted = ALL) -> Table:
    """The table in one file; its name is that of the file, without what follows the last dot.

    A target of several columns is numbers, of which y has one column for each.
    """
    path, (first, *more) = source_of(path), (target,) if isinstance(target, str) else target
    wanted = wanted._replace(beside=(*more, *wanted.beside))
    columns, names = read_columns(path, first, wanted)
    rules = wanted.rules(names, known_rule(missing))
    columns, kept = settle(path, first, columns, rules, wanted.rule(first, missing), wanted)
    features, A, y, _, beside = columns
    if more:
        y = np.column_stack([as_times(path, first, y), beside[:, : len(more)]])
    others = dict(zip(wanted.beside[len(more) :], beside[:, len(more) :].T, strict=True))
    name = (first, *more) if more else first
    about = (name, features, A, y, fingerprint(features, A, y, others), int((~kept).sum()), others)
    return Table(path.stem, str(path), *about, np.flatnonzero(kept))


def as_times(path: Source, target: str, y: np.ndarray) -> np.ndarray:
    if y.dtype.kind != "f":
        raise InputError(f"{path}: column {target!r} is text and must be numbers; encode it.")
    return y


def read_beside(
    path: Given, names: Sequence[str], schema: Schema | None = None
) -> dict[str, np.ndarray]:
    """The named columns of a file as numbers, none of which may be missing."""
    path, wanted = source_of(path), Wanted(schema=schema, beside=tuple(names))
    refuse_without_names(path)
    found = design.read_beside(path, read_frame(path, None), wanted)
    refuse_missing(path, names, found)
    return dict(zip(names, found.T, strict=True))


def read_features(
    path: Given,
    features: Sequence[str],
    missing: str = "refuse",
    schema: Schema | None = None,
) -> Matrix:
    """The named features of a file, in that order, whatever else it holds: rows to predict.

    No row is ever dropped; with `mean`, NaN is left for the caller to fill.
    """
    path, wanted = source_of(path), wanted_for(features, schema)
    (found, A, *_), names = read_columns(path, None, wanted)
    kept = lambda rule: "refuse" if rule == "drop" else rule
    rules = [kept(rule) for rule in wanted.rules(names, known_rule(missing))]
    untargeted = Columns(found, A, np.zeros(0), np.zeros(0, bool), np.zeros((A.shape[0], 0)))
    settled, _ = settle(path, "", untargeted, rules, "", wanted)
    return settled.A[:, [found.index(feature) for feature in features]]


def wanted_for(features: Sequence[str], schema: Schema | None) -> Wanted:
    """The columns of which a model's features are made."""
    if schema is None:
        return Wanted(tuple(features))
    return Wanted(tuple(dict.fromkeys(schema.sources(features).values())), (), schema)


def read_columns(path: Source, target: str | None, wanted: Wanted) -> tuple[Columns, list[str]]:
    """What is wanted of a file, and the columns that the features are made of."""
    refuse_unreadable(path)
    if isinstance(path, Path) and path.suffix.lower() in LIBSVM:
        columns, names = read_sparse(path, target, wanted)
    else:
        columns, names = read_design(path, target, wanted)
    if not columns.A.shape[0]:
        raise InputError(f"{path}: there are no rows of data; leave the file out or fill it.")
    if not columns.features:
        raise InputError(f"{path}: there is no feature beside the target; add columns.")
    return columns, names


def read_sparse(path: Path, target: str | None, wanted: Wanted) -> tuple[Columns, list[str]]:
    if wanted.schema is not None:
        raise InputError(f"{path}: LIBSVM holds numbers only, which need no schema; leave it out.")
    if wanted.beside:
        raise InputError(
            f"{path}: LIBSVM has no column {quoted(wanted.beside)} beside features and target; "
            "convert the file."
        )
    columns = read_libsvm(path, wanted.features or None)
    kept = [name for name in columns.features if name not in wanted.exclude]
    if wanted.exclude:
        A = spread(columns.A, columns.features, kept)
        columns = columns._replace(features=tuple(kept), A=A)
    return columns, kept


def known_rule(missing: str) -> str:
    if missing not in MISSING:
        raise InputError(f"missing must be one of {', '.join(MISSING)}, got {missing!r}.")
    return missing


def settle(
    path: Source,
    target: str,
    columns: Columns,
    rules: Sequence[str],
    of_target: str,
    wanted: Wanted,
) -> tuple[Columns, np.ndarray]:
    """The columns without what may not be missing, and which rows are left.

    There is a rule for each feature and one for the target and what is beside it.
    """
    features, A, y, absent, beside = columns
    refuse_infinite(path, target, columns, wanted.beside)
    rows, cols = cells(A, np.isnan)
    rule = np.array(rules)[cols]
    refused = rule == "refuse"
    if refused.any():
        first, more = refused.argmax(), refused.sum()
        more = f", the first of {more} missing values" if more > 1 else ""
        raise InputError(
            f"{path}: column {features[cols[first]]!r} has no value in data row {rows[first] + 1}"
            f"{more}; fill it in, or choose missing = 'drop' or 'mean'."
        )
    if absent.any() and of_target != "drop":
        more = f", the first of {absent.sum()} such rows" if absent.sum() > 1 else ""
        raise InputError(
            f"{path}: the target {target!r} has no value in data row {absent.argmax() + 1}{more}; "
            "fill it in, or choose missing = 'drop'."
        )
    if of_target != "drop":
        refuse_missing(path, wanted.beside, beside)
    kept = (~absent if target else np.ones(A.shape[0], bool)) & ~np.isnan(beside).any(axis=1)
    kept[rows[rule == "drop"]] = False
    if kept.all():
        return columns, kept
    if not kept.any():
        raise InputError(f"{path}: every row misses a value, so dropping them leaves none.")
    part = Columns(features, A[kept], y[kept], absent[kept], beside[kept])
    return part, kept


def refuse_missing(path: Source, names: Sequence[str], beside: np.ndarray) -> None:
    rows, cols = np.nonzero(np.isnan(beside))
    if rows.size:
        more = f", the first of {rows.size} missing values" if rows.size > 1 else ""
        raise InputError(
            f"{path}: column {names[cols[0]]!r} has no value in data row {rows[0] + 1}{more}; "
            "fill it in, or choose missing = 'drop'."
        )


def refuse_infinite(path: Source, target: str, columns: Columns, beside: Sequence[str]) -> None:
    """Refuse also what is so large that its square, or the sum of such squares, would be."""
    beyond = lambda values: np.abs(values) > LARGEST
    rows, cols = cells(columns.beside, beyond)
    if rows.size:
        where = f"column {beside[cols[0]]!r} is infinite in data row {rows[0] + 1}"
        raise InputError(f"{path}: {where}; correct the value.")
    rows, cols = cells(columns.A, beyond)
    in_target = beyond(columns.y) if columns.y.dtype.kind == "f" else np.zeros(0, bool)
    if rows.size or in_target.any():
        name = columns.features[cols[0]] if rows.size else target
        where = f"data row {1 + (rows[0] if rows.size else in_target.argmax())}"
        raise InputError(
            f"{path}: column {name!r} is infinite in {where}, or beyond {LARGEST:g}; correct the "
            "value, or measure it in another unit."
        )


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
        return replace(
            table, features=features, A=A, fingerprint=fingerprint(features, A, table.y, {})
        )
    place = {name: j for j, name in enumerate(table.features)}
    return replace(table, features=features, A=table.A[:, [place[name] for name in features]])


def fingerprint(
    features: Sequence[str], A: Matrix, y: np.ndarray, beside: Mapping[str, np.ndarray]
) -> str:
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
    for name in sorted(beside):
        digest.update(json.dumps([name]).encode() + canonical(beside[name]))
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
