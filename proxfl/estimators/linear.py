"""Regression of one target on features: lasso, elastic net, group lasso, non-negative."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from proxfl.estimators.shared import Chosen, Federated, Fixed, group_options, names_of, room


class Linear(RegressorMixin, Federated):
    """The squared loss, half the squared error, of one target."""

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._checked(X, y, y_numeric=True)
        return X, y.astype(np.float64)

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, float(intercept)

    def predict(self, X: Any) -> np.ndarray:
        return self._scores(X)


class FederatedLinearRegression(Fixed, Linear):
    """Minimise mean_rows (z - y)^2 / 2 + l1 |coef|_1 + l2 / 2 |coef|^2 (+ groups).

    With `nonneg` also coef >= 0. `groups` holds a label per feature; group_weight times sqrt(size)
    is the weight of each group's norm. The intercept is not penalised.
    """

    def __init__(
        self,
        l1=0.01,
        l2=0.0,
        *,
        groups=None,
        group_weight=0.0,
        nonneg=False,
        fit_intercept=True,
        standardise=False,
        site_weights="samples",
        local_steps=1,
        max_iter=10_000,
        tol=1e-6,
    ):
        self.l1 = l1
        self.l2 = l2
        self.groups = groups
        self.group_weight = group_weight
        self.nonneg = nonneg
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.site_weights = site_weights
        self.local_steps = local_steps
        self.max_iter = max_iter
        self.tol = tol

    def _options(self) -> dict[str, Any]:
        groups = group_options(self.groups, self.group_weight, self.n_features_in_)
        return {"loss": "squared", "l1": self.l1, "l2": self.l2, "nonneg": self.nonneg} | groups


class FederatedLinearRegressionCV(Chosen, Linear):
    """The lasso or, with l2, an elastic net, whose l1 is chosen by federated cross-validation."""

    def __init__(
        self,
        l2=0.0,
        *,
        points=50,
        ratio=1e-2,
        folds=5,
        by="rows",
        rule="1se",
        nonneg=False,
        fit_intercept=True,
        standardise=False,
        site_weights="samples",
        local_steps=1,
        max_iter=10_000,
        tol=1e-6,
        random_state=0,
    ):
        self.l2 = l2
        self.points = points
        self.ratio = ratio
        self.folds = folds
        self.by = by
        self.rule = rule
        self.nonneg = nonneg
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.site_weights = site_weights
        self.local_steps = local_steps
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _key(self) -> str:
        return "l1"

    def _options(self) -> dict[str, Any]:
        return {"loss": "squared", "l2": self.l2, "nonneg": self.nonneg}


def whole_groups(groups: Any, weight: float, features: int) -> dict[str, Any]:
    """As `group_options`; without labels each feature is a group."""
    if groups is not None:
        return group_options(groups, weight, features)
    every = names_of(room(features))
    return {"group_weight": weight, "group": dict(zip(every, every, strict=True))}


class FederatedGroupLasso(Fixed, Linear):
    """Minimise mean_rows (z - y)^2 / 2 + group_weight sum_k sqrt(size_k) |coef_k| (+ l1, l2).

    `groups` holds a label per feature; left out, each feature is a group. With l1 it is the
    sparse group lasso.
    """

    def __init__(
        self,
        group_weight=0.01,
        groups=None,
        *,
        l1=0.0,
        l2=0.0,
        nonneg=False,
        fit_intercept=True,
        standardise=False,
        site_weights="samples",
        local_steps=1,
        max_iter=10_000,
        tol=1e-6,
    ):
        self.group_weight = group_weight
        self.groups = groups
        self.l1 = l1
        self.l2 = l2
        self.nonneg = nonneg
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.site_weights = site_weights
        self.local_steps = local_steps
        self.max_iter = max_iter
        self.tol = tol

    def _options(self) -> dict[str, Any]:
        groups = whole_groups(self.groups, self.group_weight, self.n_features_in_)
        return {"loss": "squared", "l1": self.l1, "l2": self.l2, "nonneg": self.nonneg} | groups


class FederatedGroupLassoCV(Chosen, Linear):
    """The group lasso whose group_weight is chosen by federated cross-validation."""

    def __init__(
        self,
        groups=None,
        *,
        l1=0.0,
        l2=0.0,
        points=50,
        ratio=1e-2,
        folds=5,
        by="rows",
        rule="1se",
        nonneg=False,
        fit_intercept=True,
        standardise=False,
        site_weights="samples",
        local_steps=1,
        max_iter=10_000,
        tol=1e-6,
        random_state=0,
    ):
        self.groups = groups
        self.l1 = l1
        self.l2 = l2
        self.points = points
        self.ratio = ratio
        self.folds = folds
        self.by = by
        self.rule = rule
        self.nonneg = nonneg
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.site_weights = site_weights
        self.local_steps = local_steps
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _key(self) -> str:
        return "group_weight"

    def _options(self) -> dict[str, Any]:
        groups = whole_groups(self.groups, 1.0, self.n_features_in_)  # the path sets the weight
        return {"loss": "squared", "l1": self.l1, "l2": self.l2, "nonneg": self.nonneg} | groups
