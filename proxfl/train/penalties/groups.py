"""The group lasso: a group has all outputs of its features, and counts with the root of its size.

Without a table of groups, the features made of one column of a schema are a group; without a
schema, each feature of a model with several outputs is one.
"""

from collections.abc import Sequence

import numpy as np

from proxfl.errors import InputError
from proxfl.options import Option, Options
from proxfl.prox import GroupL2
from proxfl.prox.units import Ellipsoids
from proxfl.train.parts import FEATURES
from proxfl.train.penalties.by_feature import GROUPS, refuse_unknown, repeated, sources, spread
from proxfl.train.penalties.record import Penalty, Sweep, demand_outputs, times, weight

OPTION = weight("group_weight", "the sum over groups of root of size times norm")
GROUP = Option(
    "group",
    GROUPS,
    "the group of each feature, empty for none: a CSV file with columns feature and group, or a "
    "table",
    None,
)


def make(spec: Options, features: Sequence[str], outputs: int) -> GroupL2:
    table = spec.group and spread(spec.group, spec, features)
    if table is None and (made := sources(spec)):
        table = {feature: made[feature] for feature in features}
    return GroupL2.of(labels(table, features, outputs), spec.group_weight)


def labels(table: dict[str, str] | None, features: Sequence[str], outputs: int) -> np.ndarray:
    """The number of each coefficient's group, -1 for none."""
    if table is None:
        demand_outputs(OPTION.key, outputs > 1, "needs 'group' if the model has one output")
        return repeated(np.arange(len(features)), outputs)
    refuse_unknown(GROUP.key, table, features)
    lacking = [name for name in features if name not in table]
    if lacking:
        raise InputError(
            f"key 'group' gives no group to {lacking[0]!r} ({len(lacking)} such in all); add it, "
            "with an empty group to leave it unpenalised."
        )
    names = sorted({group for name in features if (group := table[name])})
    numbers = {"": -1} | {group: k for k, group in enumerate(names)}
    return repeated(np.array([numbers[table[name]] for name in features]), outputs)


PENALTY = Penalty(
    options=(OPTION, GROUP),
    make=make,
    in_units=lambda g, unit: Ellipsoids(g.labels, g.factors, unit, 0 * unit, g.weight),
    formula=lambda spec: f"{spec.group_weight:g} sum_groups_k sqrt(size_k) |coef_k|",
    words=times(OPTION),
    is_constraint=False,
    sweep=Sweep("group weight", FEATURES, dual_norm=None),
    desparsifies=False,
    by_coefficient=False,
)
