"""Coefficients that are shares of a sum."""

from collections.abc import Sequence

from proxfl.options import Option, Options
from proxfl.options.kinds import SWITCHED_NUMBER, optional
from proxfl.prox import Simplex
from proxfl.train.penalties.record import Penalty, demand_outputs

OPTION = Option(
    "simplex",
    optional(SWITCHED_NUMBER),
    "whether coefficients must be non-negative and sum to 1, or the number they sum to",
    None,
)


def make(spec: Options, features: Sequence[str], outputs: int) -> Simplex:
    demand_outputs(OPTION.key, outputs == 1, "needs a model with one output")
    return Simplex(spec.simplex)


PENALTY = Penalty(
    options=(OPTION,),
    make=make,
    in_units=None,
    formula=lambda spec: f"coef >= 0, sum_j coef_j = {spec.simplex:g}",
    words=lambda spec: f"not negative and of sum {spec.simplex:g}",
    is_constraint=True,
    sweep=None,
    desparsifies=False,
    by_coefficient=False,
)
