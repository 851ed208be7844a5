"""Regression of several targets with a nuclear norm: what they share is of low rank."""

from dataclasses import dataclass
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


@dataclass(eq=False, repr=False)
class FederatedLowRankRegression(Fixed, LowRank):
    """Minimise mean_rows |z - y|^2 / 2 + nuclear * |coef|_nuclear + l2 / 2 |coef|^2.

    The nuclear norm is the sum of singular values.
    """

    nuclear: Any = 0.01
    l2: Any = 0.0

    def _options(self) -> dict[str, Any]:
        return {"loss": "squared", "nuclear": self.nuclear, "l2": self.l2}


@dataclass(eq=False, repr=False)
class FederatedLowRankRegressionCV(Chosen, LowRank):
    """Low-rank regression whose nuclear weight is chosen by federated cross-validation."""

    l2: Any = 0.0

    def _key(self) -> str:
        return "nuclear"

    def _options(self) -> dict[str, Any]:
        return {"loss": "squared", "l2": self.l2}
