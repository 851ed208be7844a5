"""Survival: Cox's model, each client being a stratum."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from proxfl.estimators.shared import Federated, rows_that_count
from proxfl.losses import outcome
from proxfl.losses.scores.grouped import ratio
from proxfl.losses.scores.scorecards import Rows
from proxfl.losses.survival.target import Survival
from proxfl.precision import precision


@dataclass(eq=False, repr=False)
class FederatedCoxRegression(Federated):
    """Minimise -log(partial likelihood) / rows + l1 |coef|_1 + l2 / 2 |coef|^2 (+ groups).

    The likelihood is stratified by client. `y` is a structured array of an event (true or false)
    and a time; or two columns, event and time; or one column of times, negative where censored.
    `ties` are counted as by 'breslow' or 'efron'. There is no intercept.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    ties: Any = "breslow"
    groups: Any = None
    group_weight: Any = 0.0
    nonneg: Any = False
    _fewest_rows: ClassVar[int] = 2

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags

    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        structured = is_structured(y)
        X, found = self._checked(X, times_of(y) if structured else y, multi_output=True)
        found = found if structured else times_of(found)
        if not found[:, 1].any():
            raise ValueError("No row has an event, so there is nothing to learn from.")
        return X, found

    def _target(self) -> dict[str, str]:
        return {"time": "time", "event": "event"}

    def _loss(self) -> str:
        return "cox"

    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, 0.0

    def predict(self, X: Any) -> np.ndarray:
        """The log hazard of each row, up to what all rows of a client have in common."""
        return self._scores(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance: of pairs of which one is known to have its event first, the share
        that has it at the higher prediction. A pair counts with the product of its weights."""
        weights, X, y = rows_that_count(sample_weight, X, y)
        z, (time, event) = self.predict(X), times_of(y).T
        with precision(np.float64):
            counts = np.ones(len(z)) if weights is None else weights
            rows = Rows(z, outcome(time, event), np.exp(z), counts)
            pairs = Survival.scorecard.rank_sums(rows)
            return ratio(pairs["right"], pairs["pairs"])


def is_structured(y: Any) -> bool:
    return getattr(getattr(y, "dtype", None), "names", None) is not None


def times_of(y: Any) -> np.ndarray:
    """Times and events, as two columns, from any of the forms of y."""
    y = np.asarray(y)
    if is_structured(y):
        event, time = (np.asarray(y[name], np.float64) for name in y.dtype.names)
    elif y.ndim == 2 and y.shape[1] == 2:
        event, time = y.astype(np.float64).T
    else:
        column = y.astype(np.float64).reshape(len(y), -1)[:, 0]
        event, time = (column > 0).astype(np.float64), np.abs(column)
    if not (time > 0).all() or not np.isin(event, (0, 1)).all():
        raise ValueError("y must hold events, true or false, and times, which are above 0.")
    return np.stack([time, event], axis=1)
