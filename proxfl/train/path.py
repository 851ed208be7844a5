"""A regularisation path: models from the smallest weight that leaves none, down a grid of weights.

The gradient of the empty model gives the largest weight of interest; `walk.py` has the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxfl.errors import InputError
from proxfl.losses import coef_of
from proxfl.points import Point
from proxfl.tables import Table
from proxfl.train.agreement import (
    Agreement,
    agree,
    agreement_bytes,
    problem_of,
    shards_for,
    summarise,
)
from proxfl.train.choice import Choice
from proxfl.train.local import Traffic
from proxfl.train.method import Method
from proxfl.train.model import Model
from proxfl.train.penalties import REGISTRY, Sweep
from proxfl.train.penalties.by_feature import repeated
from proxfl.train.regulariser import largest_useful_weight
from proxfl.train.spec import Spec
from proxfl.train.walk import Course, ReadySites, Walk


@dataclass(frozen=True)
class RegularisationPath:
    """Models along one weight, all else as in the spec; arrays run along the weights first."""

    spec: Spec
    choice: Choice
    agreement: Agreement
    weights: np.ndarray
    models: list[Model]
    loss: np.ndarray
    objective: np.ndarray
    optimality: np.ndarray
    converged: np.ndarray
    rounds: np.ndarray
    first_rounds: int  # for the empty model
    traffic: Traffic  # of all folds too, if they were walked along with it
    method: Method

    @classmethod
    def of(
        cls, spec: Spec, choice: Choice, agreement: Agreement, walked: Walk
    ) -> "RegularisationPath":
        """That of the first set of sites in a walk."""
        found = walked.found[0]
        column = lambda name: np.array([getattr(one, name) for one in found])
        measured = ("loss", "objective", "optimality", "converged", "rounds")
        return cls(
            spec=spec,
            choice=choice,
            agreement=agreement,
            weights=walked.weights,
            models=[Model.of(spec.loss, agreement, one.x) for one in found],
            **{name: column(name) for name in measured},
            first_rounds=walked.first_rounds,
            traffic=walked.traffic,
            method=walked.method,
        )

    @property
    def key(self) -> str:
        """The name in Spec of the weight that changes."""
        return self.choice.sweep

    @property
    def sweep(self) -> Sweep:
        """What the penalty of that weight says of a path."""
        found: Any = REGISTRY[self.key].sweep  # a choice names none that has none
        return found

    @property
    def coef(self) -> np.ndarray:
        return np.stack([model.coef for model in self.models])

    @property
    def nonzeros(self) -> np.ndarray:
        return np.array([np.count_nonzero(model.coef) for model in self.models])

    def spec_at(self, index: int) -> Spec:
        return self.spec.replace(**{self.key: float(self.weights[index])})


def course_of(agreement: Agreement, spec: Spec, choice: Choice) -> Course:
    """That of the choice's grid."""
    weights_of = lambda gradient: grid(agreement, spec, choice, gradient)
    return Course(spec, choice.sweep, choice.points, weights_of)


def ready(spec: Spec, tables: Sequence[Table]) -> ReadySites:
    told = {table.name: summarise(table, spec) for table in tables}
    agreement = agree(spec, told)
    capacity = padded_size(max(table.rows for table in tables))
    shards = shards_for(spec, tables, agreement, np.array(agreement.weights), capacity)
    problem = problem_of(spec, agreement)
    return ReadySites(agreement, problem, shards, agreement_bytes(told, agreement))


def padded_size(rows: int) -> int:
    """Rows, padding included: data of about the same size then share their programs.

    Up to 1024 the next power of two, 128 at least, where compiling costs more than padding; beyond
    it at most an eighth more.
    """
    power = max(128, 1 << (rows - 1).bit_length())
    step = power // 16 if power > 1024 else power
    return -(-rows // step) * step


def grid(agreement: Agreement, spec: Spec, choice: Choice, gradient: Point) -> np.ndarray:
    """Weights at equal ratios, down from the smallest that leaves an empty model."""
    unit = repeated(np.array(agreement.unit), len(agreement.targets))
    by_unit = np.asarray(coef_of(gradient)) / unit
    most = largest_useful_weight(choice.sweep, spec, agreement.features, by_unit)
    if not most:
        raise InputError(
            f"the model is empty with any {choice.sweep}, even 0; check the target and the other "
            "penalties."
        )
    # A little above, so that rounding lets nothing in.
    return (1 + 1e-10) * most * np.geomspace(1.0, choice.ratio, choice.points)
