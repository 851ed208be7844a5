"""What a loss predicts: numbers, two classes, or classes; and how files and scores stand for it.

Before training each site tells the `labels` in its target column, `merge` makes one order of all
sites' labels, the classes, and `encode` writes a site's column as the loss takes it.
"""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.errors import InputError
from proxfl.losses.scores import scorecards
from proxfl.losses.scores.scorecards import Scorecard
from proxfl.options import Option
from proxfl.options.kinds import NAMES, optional

Label = int | float | str


@runtime_checkable
class Column(Protocol):
    """The target in one site's file."""

    @property
    def y(self) -> np.ndarray: ...
    @property
    def target(self) -> str | tuple[str, ...]: ...
    @property
    def source(self) -> str: ...
    @property
    def places(self) -> np.ndarray | None: ...


class Target(abc.ABC):
    """What the labels of a loss are; `loss` is its name, for sentences."""

    words: str  # which values it takes, once encoded
    remedy: str  # what to do with others
    most: float  # how many classes there may be; 0 for numbers, which have none
    # The options that name its columns in a file, and which of them must be given.
    options: tuple[Option, ...] = (
        Option("target", optional(NAMES), "the column to predict, or several of numbers", None),
    )
    needed: tuple[str, ...] = ("target",)
    several: bool = False  # whether there may be more than one column to predict
    # What else than the loss judges rows: from their scores and labels, a number for each.
    scores: Mapping[str, Callable[[Any, Any], Any]]
    scorecard: Scorecard  # and what judges a model once it is made

    @abc.abstractmethod
    def accepts(self, y: np.ndarray) -> Any:
        """Whether each encoded label is one."""

    def complaint(self, y: Any, loss: str) -> str | None:
        """A sentence on what is wrong with encoded labels; None if nothing is."""
        if np.all(self.accepts(y)):
            return None
        values = np.unique(y)
        few = ", ".join(str(v.item()) for v in values[:5]) + (", ..." if len(values) > 5 else "")
        return f"{loss} labels must be {self.words}, got values {{{few}}}; {self.remedy}."

    def misfit(self, y: np.ndarray, coef: Any, loss: str) -> str | None:
        """A sentence if encoded labels [clients, rows, ...] do not fit the coefficients.

        Here and in `encoded` there is one for each score, unless a target says otherwise.
        """
        if y.shape[2:] == coef.shape[1:]:
            return None
        return (
            f"{loss} needs as many targets per row as the coefficients have columns, got targets "
            f"of shape {y.shape[2:]} per row and coefficients of shape {coef.shape}; make them "
            "agree."
        )

    def encoded(self, rows: int, outputs: int) -> jax.ShapeDtypeStruct:
        """The shape and type of encoded labels."""
        return jax.ShapeDtypeStruct((rows,) if outputs == 1 else (rows, outputs), jnp.float64)

    @abc.abstractmethod
    def encode(self, column: Column, classes: Sequence[Label], loss: str) -> Any:
        """A site's column as the loss takes it."""

    def tells_nothing(self, column: Column) -> str | None:
        """A sentence if all rows of a site together tell nothing."""
        return None

    @abc.abstractmethod
    def outputs(
        self, target: Sequence[str], columns: int, classes: Sequence[Label]
    ) -> tuple[Label, ...]:
        """What each score of a row is for; `target` has the names of the columns."""

    def strata(self, y: np.ndarray) -> np.ndarray:
        """What folds spread evenly: the classes, where there are any."""
        return y if self.most else np.zeros(len(y))

    @abc.abstractmethod
    def predicted(self, z: Any, mean: Callable[[Any], Any], classes: Sequence[Label]) -> Any:
        """What scores predict: the class they speak for, or the mean that the loss gives them."""

    def labels(self, y: np.ndarray) -> tuple[Label, ...]:
        """The different values, in order, that a site tells; none leaves it for numbers."""
        return tuple(map(plain, np.unique(y).tolist())) if self.most else ()

    def tally(self, y: np.ndarray) -> dict[str, int | float]:
        """What a site's column holds, in a few numbers: of each label, how many."""
        if not self.most:
            return {"mean": float(y.mean()), "standard deviation": float(y.std())}
        values, counts = np.unique(y, return_counts=True)
        return dict(zip(map(str, map(plain, values.tolist())), counts.tolist(), strict=True))

    def merge(
        self, found: Iterable[Sequence[Label]], loss: str, declared: Sequence[Label] = ()
    ) -> tuple[Label, ...]:
        """The classes over all sites, in order; none for numbers. They may be declared."""
        declared = declared if self.most else ()
        values = {value for site in found for value in site} | set(declared)
        if len({isinstance(value, str) for value in values}) > 1:
            raise InputError(
                "The target is text at some sites and numbers at others; write it in one way."
            )
        if self.most and len(values) < 2:
            raise InputError(
                f"The target has one value at all sites together and {loss} needs two or more; "
                "check the target."
            )
        if len(values) > self.most:
            raise InputError(
                f"The target has {len(values)} different values over all sites and {loss} takes "
                f"{self.most}; use a loss for more classes, or one for numbers."
            )
        return tuple(declared or sorted(values))  # type: ignore[type-var]


@dataclass(frozen=True)
class Numbers(Target):
    """One number per score, as it stands in the file."""

    words: str
    remedy: str
    wrong: str  # what is said of a row with another
    holds: Callable[[np.ndarray], Any]
    most = 0
    several = True
    scores = MappingProxyType({})
    scorecard = scorecards.NUMBERS

    def accepts(self, y):
        return self.holds(y)

    def encode(self, column, classes, loss):
        if column.y.dtype.kind != "f":
            raise InputError(
                f"{column.source}: the target {column.target!r} is text and {loss} needs numbers; "
                "encode it, or use a loss for classes."
            )
        wrong = np.logical_not(self.holds(column.y)).reshape(len(column.y), -1)
        remedy = f"{loss} needs {self.words}: correct it or drop it"
        for name, rows in zip(np.atleast_1d(column.target).tolist(), wrong.T, strict=False):
            refuse(column, rows, self.wrong, remedy, name if wrong.shape[1] > 1 else None)
        return column.y

    def outputs(self, target, columns, classes):
        named = len(target) == columns
        return tuple(target) if named else tuple(f"{target[0]}{k}" for k in range(columns))

    def predicted(self, z, mean, classes):
        return mean(z)


class TwoClasses(Target):
    """-1 and +1, +1 being the larger label: one score, positive for +1."""

    words, remedy, most = "-1 or +1", "map them first", 2
    scores = MappingProxyType({"accuracy": lambda z, y: ((z > 0) == (y > 0)).astype(z.dtype)})
    scorecard = scorecards.TWO_CLASSES

    def accepts(self, y):
        return np.abs(y) == 1

    def encode(self, column, classes, loss):
        return 2.0 * numbered(column, classes) - 1.0

    def outputs(self, target, columns, classes):
        return tuple(target)

    def predicted(self, z, mean, classes):
        return np.asarray(classes)[(z > 0).astype(int)]


def plain(label: Label) -> Label:
    """Whole numbers without a point."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def hits(z: Any, y: Any) -> Any:
    return (jnp.argmax(z, axis=1).astype(y.dtype) == y).astype(z.dtype)


class Classes(Target):
    """0, 1, ... for the classes in order, with one score for each."""

    words, remedy, most = "integers from 0", "number them", np.inf
    scores = MappingProxyType({"accuracy": hits})
    scorecard = scorecards.CLASSES

    def accepts(self, y):
        return y.dtype.kind in "iu" and y >= 0

    def misfit(self, y, coef, loss):
        if y.ndim != 2 or coef.ndim != 2:
            return (
                f"{loss} needs one label per row and coefficients with one column per class, got "
                f"labels of shape {y.shape[2:]} per row and coefficients of shape {coef.shape}."
            )
        if y.max() < coef.shape[1]:
            return None
        return (
            f"{loss} labels must be below {coef.shape[1]}, the columns of the coefficients, got "
            f"{y.max()}; number the classes from 0, or give x0 more columns."
        )

    def encoded(self, rows, outputs):
        return jax.ShapeDtypeStruct((rows,), jnp.int32)

    def encode(self, column, classes, loss):
        return numbered(column, classes).astype(np.int32)

    def outputs(self, target, columns, classes):
        return tuple(classes)

    def predicted(self, z, mean, classes):
        return np.asarray(classes)[z.argmax(axis=1)]


NUMBERS = Numbers("finite", "drop the rows that are not", "is not finite", np.isfinite)
COUNTS = Numbers(
    "counts", "drop the rows below 0", "is below 0", lambda y: np.isfinite(y) & (y >= 0)
)
POSITIVE_NUMBERS = Numbers(
    "positive", "drop the rows that are not", "is not positive", lambda y: np.isfinite(y) & (y > 0)
)
TWO_CLASSES, CLASSES = TwoClasses(), Classes()


def probabilities(z: np.ndarray) -> np.ndarray:
    """Of classes with one score each."""
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def numbered(column: Column, classes: Sequence[Label]) -> np.ndarray:
    """The number of each row's class."""
    is_text = column.y.dtype.kind != "f"
    if any(isinstance(value, str) != is_text for value in classes):
        raise InputError(
            f"{column.source}: the target {column.target!r} is {'text' if is_text else 'numbers'} "
            "and the classes are not; write it as in the other files."
        )
    known = np.array(classes, str if is_text else np.float64)
    refuse(column, ~np.isin(column.y, known), "is none of the classes", "add its class or drop it")
    order = np.argsort(known)
    return order[np.searchsorted(known, column.y, sorter=order)]


def refuse(
    column: Column, wrong: np.ndarray, what: str, remedy: str, name: str | None = None
) -> None:
    """Raise on the first row that is wrong, by its number in the file, whichever were dropped."""
    if wrong.any():
        row = 1 + (wrong.argmax() if column.places is None else column.places[wrong.argmax()])
        where = f"the target {column.target!r}" if name is None else f"column {name!r}"
        raise InputError(f"{column.source}: {where} {what} in data row {row}; {remedy}.")
