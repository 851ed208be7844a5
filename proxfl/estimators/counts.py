"""Regression of counts and rates."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from proxfl.estimators.shared import WithIntercept


@dataclass(eq=False, repr=False)
class FederatedPoissonRegression(RegressorMixin, WithIntercept):
    """Minimise mean_rows exp(z) - y z + l1 |coef|_1 + l2 / 2 |coef|^2 (+ groups).

    Counts y have the mean exp(z). For rates, give events / exposure as y and the exposure as
    `sample_weight`. With `nonneg` also coef >= 0. The intercept is not penalised.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    groups: Any = None
    group_weight: Any = 0.0
    nonneg: Any = False
    inference: Any = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X, y = self._checked(X, y, y_numeric=True)
        if (y < 0).any():
            raise ValueError("y holds counts and has a value below 0; drop its row.")
        return X, y.astype(np.float64)

    def _loss(self) -> str:
        return "poisson"

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, float(intercept)

    def predict(self, X: Any) -> np.ndarray:
        """The mean of each row."""
        return np.exp(self._scores(X))
