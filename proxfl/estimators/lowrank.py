"""Regression of several targets with a nuclear norm: what they share is of low rank."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from proxfl.estimators.shared import Chosen, Federated, Fixed


class LowRank(RegressorMixin, Federated):
    """The squared loss summed over targets; a single target is a matrix of one column."""

    _shape: tuple[int, ...]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = self._checked(X, y, y_numeric=True, multi_output=True)
        self._shape, y = y.shape[1:], y.reshape(len(y), -1).astype(np.float64)
        # The solver tells vectors from matrices by their targets: one target gets a second that
        # is zero everywhere, as are its coefficients, and with them what they add to the norm.
        return X, np.pad(y, [(0, 0), (0, 1)]) if y.shape[1] == 1 else y

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        if self._shape:
            self.coef_, self.intercept_ = coef[:, : self._shape[0]].T, intercept[: self._shape[0]]
        else:
            self.coef_, self.intercept_ = coef[:, 0], float(intercept[0])

    def predict(self, X: Any) -> np.ndarray:
        return self._scores(X)


class FederatedLowRankRegression(Fixed, LowRank):
    """Minimise mean_rows |z - y|^2 / 2 + nuclear * |coef|_nuclear + l2 / 2 |coef|^2.

    The nuclear norm is the sum of singular values.
    """

    def __init__(
        self,
        nuclear=0.01,
        l2=0.0,
        *,
        fit_intercept=True,
        standardise=False,
        site_weights="samples",
        local_steps=1,
        max_iter=10_000,
        tol=1e-6,
    ):
        self.nuclear = nuclear
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.site_weights = site_weights
        self.local_steps = local_steps
        self.max_iter = max_iter
        self.tol = tol

    def _options(self) -> dict[str, Any]:
        return {"loss": "squared", "nuclear": self.nuclear, "l2": self.l2}


class FederatedLowRankRegressionCV(Chosen, LowRank):
    """Low-rank regression whose nuclear weight is chosen by federated cross-validation."""

    def __init__(
        self,
        l2=0.0,
        *,
        points=50,
        ratio=1e-2,
        folds=5,
        by="rows",
        rule="1se",
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
        self.fit_intercept = fit_intercept
        self.standardise = standardise
        self.site_weights = site_weights
        self.local_steps = local_steps
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _key(self) -> str:
        return "nuclear"

    def _options(self) -> dict[str, Any]:
        return {"loss": "squared", "l2": self.l2}
