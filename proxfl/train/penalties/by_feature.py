"""Tables by feature, which options take as such or as a CSV file."""

import csv
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.errors import InputError
from proxfl.options import Options
from proxfl.options.kinds import NON_NEGATIVE_NUMBER, Kind, demand, optional, text
from proxfl.tables import Schema


def kind(words: str, column: str, read: Callable[[Any], Any], parse: Callable) -> Kind:
    """A table from features to values, or a file with the columns `feature` and the one named."""

    def either(value):
        if isinstance(value, Mapping):
            return {text(name): read(held) for name, held in value.items()}
        return text(value)

    def load(path: Path) -> dict[str, Any]:
        return {name: parse(path, name, held) for name, held in read_csv(path, column).items()}

    words = f"a path, or a table of {words} by feature"
    return optional(Kind(words, either, is_path=True, load=load))


def read_csv(path: Path, column: str) -> dict[str, str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            if not {"feature", column} <= set(rows.fieldnames or ()):
                raise InputError(f"{path}: the first line must name feature and {column}; add it.")
            pairs = [(row["feature"], (row[column] or "").strip()) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InputError(f"{path}: this cannot be read as CSV; check the file.") from None
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: feature {twice!r} has more than one line; keep one.")
    return table


def group_name(value: Any) -> str:
    demand(isinstance(value, str))
    return value


def as_weight(path: Path, name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = np.nan
    if not 0 <= found < np.inf:
        raise InputError(
            f"{path}: the weight of {name!r} must be a non-negative number, got {text!r}; "
            "0 leaves it unpenalised."
        )
    return found


GROUPS = kind("group names", "group", group_name, lambda path, name, text: text)
WEIGHTS = kind("non-negative numbers", "weight", NON_NEGATIVE_NUMBER.read, as_weight)


def sources(spec: Options) -> dict[str, str]:
    """The column that each feature is made of, if a schema says so."""
    return Schema.from_dict(spec.schema).sources() if isinstance(spec.schema, Mapping) else {}


def spread(table: Mapping[str, Any], spec: Options, features: Sequence[str]) -> dict[str, Any]:
    """A table by feature, from one that may name columns: all features made of one are meant."""
    made = sources(spec)
    of_columns = {f: table[made[f]] for f in features if made.get(f) in table}
    return of_columns | {n: value for n, value in table.items() if n not in made.values()}


def refuse_unknown(key: str, table: Mapping[str, Any], features: Sequence[str]) -> None:
    unknown = sorted(set(table) - set(features))
    if unknown:
        near = get_close_matches(unknown[0], features, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it or check the data."
        raise InputError(f"key {key!r} names {unknown[0]!r}, which is no feature; {hint}")


def repeated(by_feature: np.ndarray, outputs: int) -> np.ndarray:
    """One value for each coefficient."""
    return by_feature if outputs == 1 else np.repeat(by_feature[:, None], outputs, axis=1)
