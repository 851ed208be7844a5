"""Targets as losses take them, agreed between sites by label values alone.

Each site tells its `label_values`, `merge_labels` makes one order of them, `encode_target` writes a
site's target in it: -1 and +1 for logistic, +1 being the larger value; 0, 1, ... for softmax; and
numbers as they are for the other losses, for which no label value leaves a site.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from proxfl.tables.formats import InputError
from proxfl.tables.sites import Table

Label = int | float | str

CLASSIFIERS = ("logistic", "softmax")


def label_values(table: Table) -> tuple[Label, ...]:
    """The different values of the target, in order; whole numbers as int."""
    return tuple(plain(value) for value in np.unique(table.y).tolist())


def plain(value: float | str) -> Label:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def merge_labels(loss: str, found: Iterable[Sequence[Label]]) -> tuple[Label, ...]:
    """The classes over all sites, in order; none for a loss of numbers.

    For logistic the second class is the one coded +1.
    """
    if loss not in CLASSIFIERS:
        return ()
    values = {value for site in found for value in site}
    if len({isinstance(value, str) for value in values}) > 1:
        raise InputError(
            "The target is text at some sites and numbers at others; write it in one way."
        )
    classes = tuple(sorted(values))  # type: ignore[type-var]
    if len(classes) < 2:
        raise InputError(
            f"The target has one value at all sites together and {loss} needs two or more; check "
            "the target."
        )
    if loss == "logistic" and len(classes) > 2:
        raise InputError(
            f"The target has {len(classes)} different values over all sites and logistic takes "
            "two; use loss softmax for classes, or squared for numbers."
        )
    return classes


def encode_target(table: Table, loss: str, classes: Sequence[Label] = ()) -> np.ndarray:
    """The target as the loss takes it; `classes` come from `merge_labels`."""
    if loss not in CLASSIFIERS:
        return numeric_target(table, loss)
    is_text = table.y.dtype.kind != "f"
    if any(isinstance(value, str) != is_text for value in classes):
        raise InputError(
            f"{table.source}: the target {table.target!r} is {'text' if is_text else 'numbers'} "
            "and the classes are not; write it as in the other files."
        )
    known = np.array(classes, str if is_text else np.float64)
    refuse(table, ~np.isin(table.y, known), "is none of the classes", "add its class or drop it")
    number = np.searchsorted(known, table.y)
    return 2.0 * number - 1.0 if loss == "logistic" else number.astype(np.int32)


def numeric_target(table: Table, loss: str) -> np.ndarray:
    if table.y.dtype.kind != "f":
        raise InputError(
            f"{table.source}: the target {table.target!r} is text and {loss} needs numbers; encode "
            "it, or use loss logistic or softmax."
        )
    if loss == "poisson":
        refuse(table, table.y < 0, "is below 0", "poisson needs counts: correct it or drop it")
    return table.y


def refuse(table: Table, wrong: np.ndarray, what: str, remedy: str) -> None:
    """Raise on the first row that is wrong; if rows were dropped, the others were renumbered."""
    if wrong.any():
        row = f"{'kept' if table.dropped else 'data'} row {wrong.argmax() + 1}"
        raise InputError(f"{table.source}: the target {table.target!r} {what} in {row}; {remedy}.")
