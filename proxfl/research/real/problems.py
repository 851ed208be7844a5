"""Leagues on real tables: l1 and group penalties at the weight that cross-validation chooses.

A draw is nine tenths of every site's rows, so that the spread over draws is that of resampling. The
weight is chosen once, on all rows, by five folds of rows.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from proxfl.estimators import (
    FederatedGroupLassoCV,
    FederatedLinearRegressionCV,
    FederatedLogisticRegressionCV,
)
from proxfl.precision import precision
from proxfl.research.real.tables import TABLES, Sites
from proxfl.research.shipped import Shipped
from proxfl.tables import Table
from proxfl.train.path import ready
from proxfl.train.spec import Spec

CV: Any = {"points": 30, "folds": 5, "rule": "min", "standardise": True}


def model(sites: Sites, penalty: str = "l1") -> Any:
    """The estimator that chooses its weight by federated cross-validation."""
    if penalty == "group":
        return FederatedGroupLassoCV(sites.groups, **CV)
    kind = FederatedLogisticRegressionCV if sites.loss.target.most else FederatedLinearRegressionCV
    return kind(**CV)


@cache
def loaded(name: str) -> Sites:
    return TABLES[name]()


@cache
def weight(name: str, penalty: str) -> float:
    """What cross-validation chooses on all rows."""
    sites = loaded(name)
    return float(model(sites, penalty).fit(sites.X, sites.y, sites.site).weight_)


def problem(name: str, penalty: str, seed: int) -> Shipped:
    """Nine tenths of every site's rows, standardised as `proxfl train` does it."""
    sites, rng = loaded(name), np.random.default_rng(seed)
    features = tuple(f"x{j}" for j in range(sites.X.shape[1]))
    options: dict[str, Any] = {"target": "y", "loss": sites.loss.name, "standardise": True}
    if penalty == "l1":
        options["l1"] = weight(name, penalty)
    else:
        options["group_weight"] = weight(name, penalty)
        options["group"] = dict(zip(features, sites.groups.tolist(), strict=True))
    spec, tables = Spec(**options), []
    for site in np.unique(sites.site):
        rows = np.flatnonzero(sites.site == site)
        rows = rng.permutation(rows)[: int(0.9 * len(rows))]
        tables.append(Table(site, site, "y", features, sites.X[rows], sites.y[rows], ""))
    with precision(np.float64):
        _, made, shards, _ = ready(spec, tables)
        return Shipped(made, shards)


LEAGUES: dict[str, Callable[[int], Shipped]] = {
    "randhie-l1": partial(problem, "randhie", "l1"),
    "randhie-group": partial(problem, "randhie", "group"),
    "azpro-l1": partial(problem, "azpro", "l1"),
    "loans-l1": partial(problem, "loans", "l1"),
    "loans-group": partial(problem, "loans", "group"),
    "lung-l1": partial(problem, "lung", "l1"),
}
