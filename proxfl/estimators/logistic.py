"""Classification: logistic loss for two classes, softmax for more."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from proxfl.estimators.shared import Chosen, WithIntercept


class Logistic(ClassifierMixin, WithIntercept):
    """Classes from linear scores."""

    classes_: Any

    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; two or more are needed.")
        return X, numbers.astype(np.float64)

    def _loss(self) -> str:
        return "logistic" if len(self.classes_) == 2 else "softmax"

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = np.atleast_2d(coef.T), np.atleast_1d(intercept)

    def decision_function(self, X: Any) -> np.ndarray:
        """One score per row for two classes, positive for the second; else one per class."""
        z = self._scores(X)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict_log_proba(self, X: Any) -> np.ndarray:
        z = self._scores(X)
        z = np.column_stack([np.zeros(len(z)), z]) if z.shape[1] == 1 else z
        return log_softmax(z, axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        z = self.decision_function(X)
        return self.classes_[(z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)]


@dataclass(eq=False, repr=False)
class FederatedLogisticRegression(Logistic):
    """Minimise mean_rows loss + l1 |coef|_1 + l2 / 2 |coef|^2 (+ groups), coef >= 0 if asked.

    The loss is log(1 + exp(-y z)) for two classes and softmax cross-entropy for more. `groups`
    holds a label per feature. The intercept is not penalised.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    groups: Any = None
    group_weight: Any = 0.0
    nonneg: Any = False
    inference: Any = False


@dataclass(eq=False, repr=False)
class FederatedLogisticRegressionCV(Chosen, Logistic):
    """Logistic regression whose l1 is chosen by federated cross-validation.

    With an `l1_ratio` below 1 the penalty is weight_ (l1_ratio |coef|_1 + (1 - l1_ratio) / 2
    |coef|^2), an elastic net; `l2` is a ridge beside it that stays as it is.
    """

    l2: Any = 0.0
    _: KW_ONLY
    l1_ratio: Any = 1.0
    nonneg: Any = False
    _key = "elastic_net"
