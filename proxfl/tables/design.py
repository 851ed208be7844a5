"""From the columns of a file to features, as numbers, and a target."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from proxfl.errors import InputError
from proxfl.tables.formats import Columns, Frame, Source, labels, quoted, read_frame
from proxfl.tables.schema import Schema
from proxfl.tables.values import to_numbers


class Wanted(NamedTuple):
    """Which columns of a file become features, and as what they are read.

    All but the target, unless some are named; as numbers, unless a schema says what they are.
    """

    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    schema: Schema | None = None
    beside: tuple[str, ...] = ()  # columns that are neither features nor the target

    def rules(self, columns: Sequence[str], usual: str) -> list[str]:
        """What to do about missing values of each feature that the columns become."""
        schema = self.schema
        return [usual] * len(columns) if schema is None else schema.rules(columns, usual)

    def rule(self, target: str, usual: str) -> str:
        """The same for the target, which is never filled in."""
        if self.schema is None or target not in self.schema.columns:
            return usual
        own = self.schema.columns[target].missing
        return own if own in ("refuse", "drop") else usual


ALL = Wanted()


def read_design(path: Source, target: str | None, wanted: Wanted) -> tuple[Columns, list[str]]:
    """What a file holds of what is wanted, and the columns that the features are made of."""
    schema = wanted.schema
    frame = read_frame(path, target, frozenset() if schema is None else schema.texts)
    names = chosen(path, list(frame.columns), target, wanted)
    if schema is None:
        features, A = tuple(names), as_numbers(path, frame, names)
    else:
        features = tuple(feature for name in names for feature in schema.made_of(name))
        A = schema.encode(path, frame, names)
    beside = read_beside(path, frame, wanted)
    if target is None:
        return Columns(features, A, np.zeros(0), np.zeros(0, bool), beside), names
    if schema is not None and target in schema.columns:
        return Columns(features, A, *schema.labels(path, target, frame[target]), beside), names
    return Columns(features, A, *labels(frame[target]), beside), names


def read_beside(path: Source, frame: Frame, wanted: Wanted) -> np.ndarray:
    """The columns beside features and target, each as one column of numbers."""
    found = np.empty((len(frame), len(wanted.beside)))
    for k, name in enumerate(wanted.beside):
        refuse_lacking(path, [name], list(frame.columns), "the command names it")
        schema = wanted.schema
        if schema is None or name not in schema.columns:
            found[:, k] = as_numbers(path, frame, [name])[:, 0]
            continue
        if len(schema.columns[name].names(name)) != 1:
            raise InputError(f"{path}: column {name!r} is not one number a row; name another.")
        found[:, k] = schema.encode(path, frame, [name])[:, 0]  # without what says what is missing
    return found


def chosen(path: Source, held: Sequence[str], target: str | None, wanted: Wanted) -> list[str]:
    """The columns that become features, of those that a file holds, in the order wanted."""
    known = held if wanted.schema is None else list(wanted.schema.columns)
    strange = [name for name in (*wanted.features, *wanted.exclude) if name not in known]
    if strange and wanted.schema is not None:
        near = get_close_matches(strange[0], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "add it there, or leave it out here."
        raise InputError(f"the schema has no column {quoted(strange)}; {hint}")
    left_out = set(wanted.features) & set(wanted.schema.identifiers if wanted.schema else ())
    if left_out:
        raise InputError(
            f"the schema leaves column {quoted(sorted(left_out))} out as an identifier; say "
            "another kind there, or do not name it as a feature."
        )
    if target in wanted.features:
        raise InputError(f"{target!r} is the target, so it cannot be a feature; leave it out.")
    for name in wanted.beside:
        if name in wanted.features or name == target:
            raise InputError(f"column {name!r} cannot be two things at once; name another.")
    others = (target, *wanted.exclude, *wanted.beside)
    names = [name for name in wanted.features or known if name not in others]
    needed = [n for n in names if wanted.schema is None or wanted.schema.made_of(n)]
    refuse_lacking(path, list(dict.fromkeys((*needed, *strange))), held, "the model needs it")
    return needed


def refuse_lacking(path: Source, needed: Sequence[str], held: Sequence[str], why: str) -> None:
    lacking = [name for name in needed if name not in held]
    if lacking:
        near = get_close_matches(lacking[0], held, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(f"{path}: there is no column {quoted(lacking)}; {why}{hint}.")


def as_numbers(path: Source, frame: Frame, names: Sequence[str]) -> np.ndarray:
    """The columns as float64, NaN where a value is missing, if all hold numbers."""
    A, wrong = np.empty((len(frame), len(names))), {}
    for j, name in enumerate(names):
        A[:, j], odd = to_numbers(frame[name])
        if odd.any():
            wrong[name] = odd.argmax() + 1
    if wrong:
        row = f"first in data row {min(wrong.values())}"
        what = "columns {} are" if len(wrong) > 1 else "column {} is"
        raise InputError(
            f"{path}: {what.format(quoted(list(wrong), len(wrong)))} not numeric, {row}; say what "
            "the columns are in a schema, which 'proxfl schema' drafts of files, or leave them out "
            "by 'exclude'."
        )
    return A
