"""The elastic net by one weight, so that a path takes both of its terms down together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from proxfl.core import Regulariser
from proxfl.options import Option, Options
from proxfl.options.kinds import number, optional
from proxfl.prox import L1, elastic_net, together
from proxfl.prox.units import Curve
from proxfl.train.parts import FEATURES
from proxfl.train.penalties.record import Penalty, Sweep, weight

OPTION = weight("elastic_net", "l1_ratio |coef|_1 + (1 - l1_ratio) / 2 |coef|^2")
RATIO = Option(
    "l1_ratio",
    # Of the ridge alone no weight leaves the model empty, so that it has no path.
    optional(number("a number above 0 and at most 1", lambda v: 0 < v <= 1)),
    "the part of elastic_net that is of absolute coefficients, as scikit-learn's; 0.5 unless set",
    None,
)


def ratio_of(spec: Options) -> float:
    return 0.5 if spec.l1_ratio is None else spec.l1_ratio


def make(spec: Options, features: Sequence[str], outputs: int) -> Regulariser:
    total, ratio = spec.elastic_net, ratio_of(spec)
    return L1(total) if ratio == 1 else elastic_net(ratio * total, (1 - ratio) * total)


def in_units(g: Any, unit: np.ndarray) -> Regulariser:
    if isinstance(g, L1):
        return L1(g.weight * unit)
    return together(L1(g.g.weight * unit), Curve(g.weight * unit**2))


def formula(spec: Options) -> str:
    ratio = ratio_of(spec)
    rest = "" if ratio == 1 else f" + {1 - ratio:g}/2 |coef|^2"
    return f"{spec.elastic_net:g} ({ratio:g} sum_j |coef_j|{rest})"


def words(spec: Options) -> str:
    ratio = ratio_of(spec)
    more = "" if ratio == 1 else f" and {1 - ratio:g} of half their squared norm"
    return f"{spec.elastic_net:g} times {ratio:g} of the sum of absolute coefficients{more}"


PENALTY = Penalty(
    options=(OPTION, RATIO),
    make=make,
    in_units=in_units,
    formula=formula,
    words=words,
    is_constraint=False,
    sweep=Sweep("elastic-net weight", FEATURES, dual_norm=None),
    desparsifies=False,
    by_coefficient=True,
)
