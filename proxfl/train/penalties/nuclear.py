"""The nuclear norm, for models of low rank."""

from collections.abc import Sequence

import numpy as np

from proxfl.options import Options
from proxfl.prox import Nuclear
from proxfl.train.parts import DIRECTIONS
from proxfl.train.penalties.record import Penalty, Sweep, demand_outputs, times, weight

OPTION = weight("nuclear", "the sum of singular values of a matrix of coefficients")


def make(spec: Options, features: Sequence[str], outputs: int) -> Nuclear:
    demand_outputs(OPTION.key, outputs > 1, "needs a model with several outputs")
    return Nuclear(spec.nuclear)


PENALTY = Penalty(
    options=(OPTION,),
    make=make,
    in_units=None,
    formula=lambda spec: f"{spec.nuclear:g} sum_k singular_value_k(coef)",
    words=times(OPTION),
    is_constraint=False,
    sweep=Sweep("nuclear weight", DIRECTIONS, lambda gradient: float(np.linalg.norm(gradient, 2))),
    desparsifies=False,
    by_coefficient=False,
)
