"""Coefficients that are not negative."""

from proxfl.options import Option
from proxfl.options.kinds import FLAG
from proxfl.prox import NonNegative
from proxfl.train.penalties.record import Penalty

PENALTY = Penalty(
    options=(Option("nonneg", FLAG, "whether coefficients must be non-negative", False),),
    make=lambda spec, features, outputs: NonNegative(),
    in_units=lambda g, unit: g,
    formula=lambda spec: "coef >= 0",
    words=lambda spec: "not negative",
    is_constraint=True,
    sweep=None,
    desparsifies=False,
    by_coefficient=True,
)
