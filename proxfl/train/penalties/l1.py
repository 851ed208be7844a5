"""The lasso, with a factor for each feature if so asked."""

from collections.abc import Sequence

import numpy as np

from proxfl.options import Option, Options
from proxfl.prox import L1
from proxfl.train.parts import FEATURES
from proxfl.train.penalties.by_feature import WEIGHTS, refuse_unknown, repeated, spread
from proxfl.train.penalties.record import Penalty, Sweep, times, weight

OPTION = weight("l1", "the sum of absolute coefficients")
FACTORS = Option(
    "feature_weights",
    WEIGHTS,
    "factors of l1 by feature, 1 for those left out: a CSV file with columns feature and weight, "
    "or a table",
    None,
)


def make(spec: Options, features: Sequence[str], outputs: int) -> L1:
    table = spec.feature_weights
    if table is None:
        return L1(spec.l1)
    table = spread(table, spec, features)
    refuse_unknown(FACTORS.key, table, features)
    return L1(spec.l1 * repeated(np.array([table.get(name, 1.0) for name in features]), outputs))


def formula(spec: Options) -> str:
    return f"{spec.l1:g} sum_j {'' if spec.feature_weights is None else 'weight_j '}|coef_j|"


PENALTY = Penalty(
    options=(OPTION, FACTORS),
    make=make,
    in_units=lambda g, unit: L1(g.weight * unit),
    formula=formula,
    words=times(OPTION),
    is_constraint=False,
    sweep=Sweep("l1 weight", FEATURES, dual_norm=None),
    desparsifies=True,
    by_coefficient=True,
)
