"""Coverage of 95 % intervals, by simulation: how often they hold the truth that made the data.

Four sites that differ in size and in where their features lie. Two designs of 8 features, of which
three have an effect: independent, and correlated (0.7 to the power of the distance). Logistic
regression without a penalty, and with l1, whose intervals are those of the de-sparsified model.
"""

import warnings
from typing import Any

import numpy as np

from proxfl.tables import Table
from proxfl.train.spec import Spec
from proxfl.train.train import train

DRAWS, FEATURES, ROWS = 500, 8, (150, 100, 200, 150)
TRUTH = np.array([1.0, -0.5, 0.5, 0, 0, 0, 0, 0])
DESIGNS = {"independent": 0.0, "correlated": 0.7}
NAMES = tuple(f"x{j}" for j in range(FEATURES))


def sites(correlation: float, seed: int) -> list[Table]:
    rng, made = np.random.default_rng(seed), []
    apart = np.abs(np.subtract.outer(range(FEATURES), range(FEATURES)))
    root = np.linalg.cholesky(correlation**apart)
    for i, rows in enumerate(ROWS):
        A = rng.normal(size=(rows, FEATURES)) @ root.T + 0.5 * rng.normal(size=FEATURES)
        y = (A @ TRUTH - 0.2 + rng.logistic(size=rows) > 0) * 1.0
        made.append(Table(f"s{i}", "", "y", NAMES, A, y, ""))
    return made


def covered(spec: Spec, correlation: float) -> dict[str, Any]:
    """The share of draws in which each interval holds the truth."""
    hits, robust, widths = [], [], []
    for seed in range(DRAWS):
        found: Any = train(spec, sites(correlation, seed)).inference
        error = found.coef[:-1] - TRUTH
        half = (found.upper - found.coef)[:-1]
        hits.append(np.abs(error) <= half)
        robust.append(np.abs(error) <= half * found.robust_se[:-1] / found.se[:-1])
        widths.append(2 * half)
    share = np.mean(hits, axis=0)
    return {
        "by feature": share.tolist(),
        "all": float(share.mean()),
        "with an effect": float(share[TRUTH != 0].mean()),
        "without": float(share[TRUTH == 0].mean()),
        "robust, all": float(np.mean(robust)),
        "mean width": float(np.mean(widths)),
    }


def run() -> dict[str, Any]:
    free = Spec(target="y", loss="logistic", inference=True, tol=1e-8)
    kinds = {"no penalty": free, "l1 = 0.01": free.replace(l1=0.01)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [
            {"design": design, "penalty": kind} | covered(spec, correlation)
            for design, correlation in DESIGNS.items()
            for kind, spec in kinds.items()
        ]
    return {"what": f"coverage of 95 % intervals over {DRAWS} draws", "rows": rows}
