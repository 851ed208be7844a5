"""The lasso on pooled data, if pooling were allowed: time to the same optimality.

scikit-learn's breast cancer data, standardised, l1 logistic regression without intercept, in five
sites sorted by label. Peers see all rows at once and need not talk: this is what a user would pick
if pooling were allowed. All must agree on the objective.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import proxfl as px
from benchmarks.side import interleaved
from proxfl.estimators import FederatedLogisticRegression

WEIGHT, TOLERANCE = 1e-3, 1e-6


def objective(coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.logaddexp(0, -y * (X @ coef)).mean() + WEIGHT * np.abs(coef).sum())


def run(repeats: int = 5) -> dict[str, Any]:
    held = load_breast_cancer()
    X = (held.data - held.data.mean(axis=0)) / held.data.std(axis=0)
    y = 2.0 * held.target - 1
    sites = np.empty(len(y), int)
    sites[np.argsort(y, kind="stable")] = np.arange(len(y)) * 5 // len(y)
    ours = FederatedLogisticRegression(l1=WEIGHT, fit_intercept=False, tol=TOLERANCE)
    pooled = LogisticRegression(
        C=1 / (WEIGHT * len(y)), l1_ratio=1.0, solver="saga", fit_intercept=False,
        max_iter=100_000, tol=1e-7,
    )  # fmt: skip
    coordinate = LogisticRegression(
        C=1 / (WEIGHT * len(y)), l1_ratio=1.0, solver="liblinear", fit_intercept=False,
        max_iter=10_000, tol=1e-8,
    )  # fmt: skip
    calls = {
        "proxfl, five sites": lambda: ours.fit(X, y, client_ids=sites),
        "scikit-learn saga, pooled": lambda: pooled.fit(X, y),
        "scikit-learn liblinear, pooled": lambda: coordinate.fit(X, y),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = {name: objective(call().coef_.ravel(), X, y) for name, call in calls.items()}
        best = min(values.values())
        for name, value in values.items():
            np.testing.assert_allclose(value, best, rtol=1e-6, err_msg=name)
        times = interleaved(calls, repeats)
    return {
        "what": "l1 logistic regression on breast cancer to the same objective",
        "times": times,
        "rounds": int(ours.n_iter_),
        "objective_gaps": {name: value / best - 1 for name, value in values.items()},
        "version": px.__version__,
    }
