"""What an option for a penalty is: one record, from which all that lists penalties is made."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.options import Option, Options
from proxfl.options.kinds import NON_NEGATIVE_NUMBER
from proxfl.train.parts import Parts

# By key, in the order of help and formulas; defining a record enters it.
REGISTRY: dict[str, "Penalty"] = {}


class Sweep(NamedTuple):
    """What a path along the weight of a penalty shows."""

    axis: str
    parts: Parts
    # The smallest weight that leaves an empty model, from the gradient there; None: to be searched.
    dual_norm: Callable[[np.ndarray], float] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Penalty:
    """An option that adds to the regulariser of the coefficients, once it is set.

    Its own option comes first, then those that mean nothing without it. A field is None where the
    answer is that there is none; a field left out is an error.
    """

    options: tuple[Option, ...]
    # From the options, the names of the features and the number of outputs.
    make: Callable[[Options, Sequence[str], int], Regulariser]
    # What `make` gave, as a function of c / unit for coefficients c; None: its prox is not known.
    in_units: Callable[[Any, np.ndarray], Regulariser] | None
    formula: Callable[[Options], str]
    words: Callable[[Options], str]
    is_constraint: bool  # whether it confines coefficients, rather than adding a term
    sweep: Sweep | None  # None: no path runs along it
    desparsifies: bool  # whether intervals are known for models with it alone
    by_coefficient: bool  # whether it is a sum over coefficients, so that some can be solved for

    def __post_init__(self):
        held = REGISTRY.get(self.key, self)
        if held.make.__module__ != self.make.__module__:
            raise TypeError(f"there is a penalty {self.key!r} already; choose another key.")
        REGISTRY[self.key] = self

    @property
    def key(self) -> str:
        return self.options[0].key

    def is_set(self, spec: Options) -> bool:
        return bool(getattr(spec, self.key))

    def check(self, spec: Options) -> None:
        """Refuse what would be ignored."""
        for option in self.options[1:]:
            if getattr(spec, option.key) != option.default and not self.is_set(spec):
                along = "" if self.sweep is None else ", or let a path run along it"
                raise InputError(
                    f"key {option.key!r} needs {self.key!r}, {self.options[0].meaning}; set it"
                    f"{along}."
                )


def weight(key: str, meaning: str) -> Option:
    """The option of a term of the objective: its weight, 0 unless set."""
    return Option(key, NON_NEGATIVE_NUMBER, f"the weight of {meaning}", 0.0)


def times(option: Option) -> Callable[[Options], str]:
    """The words for such a term."""
    meaning = option.meaning.removeprefix("the weight of ")
    return lambda spec: f"{getattr(spec, option.key):g} times {meaning}"


def demand_outputs(key: str, holds: bool, words: str) -> None:
    if not holds:
        raise InputError(f"key {key!r} {words}; remove it, or change the loss.")


def chosen(spec: Options) -> list[Penalty]:
    """The penalties that are set."""
    return [penalty for penalty in REGISTRY.values() if penalty.is_set(spec)]


def swept() -> dict[str, Penalty]:
    """Those that a path can run along."""
    return {key: penalty for key, penalty in REGISTRY.items() if penalty.sweep is not None}
