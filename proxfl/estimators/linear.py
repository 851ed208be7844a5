"""Regression of one target on features: lasso, elastic net, group lasso, non-negative."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from proxfl.estimators.shared import (
    Chosen,
    Federated,
    Fixed,
    group_options,
    names_of,
    padded_features,
)


class Linear(RegressorMixin, Federated):
    """The squared loss, half the squared error, of one target."""

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._checked(X, y, y_numeric=True)
        return X, y.astype(np.float64)

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, float(intercept)

    def predict(self, X: Any) -> np.ndarray:
        return self._scores(X)


@dataclass(eq=False, repr=False)
class FederatedLinearRegression(Fixed, Linear):
    """Minimise mean_rows (z - y)^2 / 2 + l1 |coef|_1 + l2 / 2 |coef|^2 (+ groups).

    With `nonneg` also coef >= 0. `groups` holds a label per feature; group_weight times sqrt(size)
    is the weight of each group's norm. The intercept is not penalised.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    groups: Any = None
    group_weight: Any = 0.0
    nonneg: Any = False

    def _options(self) -> dict[str, Any]:
        groups = group_options(self.groups, self.group_weight, self.n_features_in_)
        return {"loss": "squared", "l1": self.l1, "l2": self.l2, "nonneg": self.nonneg} | groups


@dataclass(eq=False, repr=False)
class FederatedLinearRegressionCV(Chosen, Linear):
    """The lasso or, with l2, an elastic net, whose l1 is chosen by federated cross-validation."""

    l2: Any = 0.0
    _: KW_ONLY
    nonneg: Any = False

    def _key(self) -> str:
        return "l1"

    def _options(self) -> dict[str, Any]:
        return {"loss": "squared", "l2": self.l2, "nonneg": self.nonneg}


def whole_groups(groups: Any, weight: float, features: int) -> dict[str, Any]:
    """As `group_options`; without labels each feature is a group."""
    if groups is not None:
        return group_options(groups, weight, features)
    every = names_of(padded_features(features))
    return {"group_weight": weight, "group": dict(zip(every, every, strict=True))}


@dataclass(eq=False, repr=False)
class FederatedGroupLasso(Fixed, Linear):
    """Minimise mean_rows (z - y)^2 / 2 + group_weight sum_k sqrt(size_k) |coef_k| (+ l1, l2).

    `groups` holds a label per feature; left out, each feature is a group. With l1 it is the
    sparse group lasso.
    """

    group_weight: Any = 0.01
    groups: Any = None
    _: KW_ONLY
    l1: Any = 0.0
    l2: Any = 0.0
    nonneg: Any = False

    def _options(self) -> dict[str, Any]:
        groups = whole_groups(self.groups, self.group_weight, self.n_features_in_)
        return {"loss": "squared", "l1": self.l1, "l2": self.l2, "nonneg": self.nonneg} | groups


@dataclass(eq=False, repr=False)
class FederatedGroupLassoCV(Chosen, Linear):
    """The group lasso whose group_weight is chosen by federated cross-validation."""

    groups: Any = None
    _: KW_ONLY
    l1: Any = 0.0
    l2: Any = 0.0
    nonneg: Any = False

    def _key(self) -> str:
        return "group_weight"

    def _options(self) -> dict[str, Any]:
        groups = whole_groups(self.groups, 1.0, self.n_features_in_)  # the path sets the weight
        return {"loss": "squared", "l1": self.l1, "l2": self.l2, "nonneg": self.nonneg} | groups
