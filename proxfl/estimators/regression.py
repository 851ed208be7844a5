"""Regression: lasso, elastic net, group lasso, non-negative; of several targets, of low rank."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from proxfl.estimators.shared import Chosen, WithIntercept, group_of_each, names_of


class Regression(RegressorMixin, WithIntercept):
    """The squared loss, half the squared error."""

    def _loss(self) -> str:
        return "squared"

    def predict(self, X: Any) -> np.ndarray:
        return self._scores(X)


class Linear(Regression):
    """One target."""

    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X, y = self._checked(X, y, y_numeric=True)
        return X, y.astype(np.float64)

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, float(intercept)


@dataclass(eq=False, repr=False)
class FederatedLinearRegression(Linear):
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
    inference: Any = False


@dataclass(eq=False, repr=False)
class FederatedLinearRegressionCV(Chosen, Linear):
    """The lasso or, with an `l1_ratio` below 1, an elastic net, by federated cross-validation.

    The penalty is weight_ (l1_ratio |coef|_1 + (1 - l1_ratio) / 2 |coef|^2), as in scikit-learn;
    `l2` is a ridge beside it that stays as it is.
    """

    l2: Any = 0.0
    _: KW_ONLY
    l1_ratio: Any = 1.0
    nonneg: Any = False
    _key = "elastic_net"


@dataclass(eq=False, repr=False)
class FederatedHuberRegression(Linear):
    """Minimise mean_rows of the Huber loss + l1 |coef|_1 + l2 / 2 |coef|^2 (+ groups).

    The loss is (z - y)^2 / 2 up to a residual of `delta` and linear beyond it, so that rows far off
    do not decide. With `nonneg` also coef >= 0. The intercept is not penalised.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    delta: Any = 1.0
    groups: Any = None
    group_weight: Any = 0.0
    nonneg: Any = False
    inference: Any = False

    def _loss(self) -> str:
        return "huber"


class Grouped(Linear):
    """Features in groups; without labels each feature is one."""

    groups: Any

    def _group(self) -> dict[str, str]:
        if self.groups is not None:
            return group_of_each(self.groups, self.n_features_in_, self._width())
        return {name: name for name in names_of(self._width())}


@dataclass(eq=False, repr=False)
class FederatedGroupLasso(Grouped):
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


@dataclass(eq=False, repr=False)
class FederatedGroupLassoCV(Chosen, Grouped):
    """The group lasso whose group_weight is chosen by federated cross-validation."""

    groups: Any = None
    _: KW_ONLY
    l1: Any = 0.0
    l2: Any = 0.0
    nonneg: Any = False
    _key = "group_weight"


class LowRank(Regression):
    """Several targets, over which losses are summed; a single target is a matrix of one column."""

    _shape: tuple[int, ...]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
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


@dataclass(eq=False, repr=False)
class FederatedLowRankRegression(LowRank):
    """Minimise mean_rows |z - y|^2 / 2 + nuclear * |coef|_nuclear + l2 / 2 |coef|^2.

    The nuclear norm is the sum of singular values.
    """

    nuclear: Any = 0.01
    l2: Any = 0.0


@dataclass(eq=False, repr=False)
class FederatedLowRankRegressionCV(Chosen, LowRank):
    """Low-rank regression whose nuclear weight is chosen by federated cross-validation."""

    l2: Any = 0.0
    _key = "nuclear"
