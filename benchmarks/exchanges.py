"""Exchanges to a certificate: Newton's method against Algorithm 1, as `proxfl train` runs both.

l1 logistic regression on drawn data (20 sites, 40 features: badly scaled one by one, the same
rotated, correlated; six draws each) and on breast cancer in five sites sorted by label, to
optimality 1e-10; a path of 50 weights with 5 folds; and what it costs, at 1e-8, that sites keep the
means and spreads of features in their own units to themselves. All exchanges count: the agreement,
tries that failed, the certificate and the duality gap.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

from proxfl.tables import Table
from proxfl.train.choice import Choice
from proxfl.train.folds import path_with_folds
from proxfl.train.local import total
from proxfl.train.spec import Spec
from proxfl.train.train import ConvergenceWarning, train

METHODS = ("newton", "decoupled")
SITES, FEATURES, ROWS, DRAWS = 20, 40, 30, 6


def tables(A: np.ndarray, y: np.ndarray, sites: int) -> list[Table]:
    """Sites of rows in order."""
    names = tuple(f"x{j}" for j in range(A.shape[1]))
    parts = np.array_split(np.arange(len(y)), sites)
    return [Table(f"s{i:02d}", "", "y", names, A[p], y[p], "") for i, p in enumerate(parts)]


def drawn(kind: str, seed: int) -> list[Table]:
    rng, rows = np.random.default_rng(seed), SITES * ROWS
    A = rng.normal(size=(rows, FEATURES))
    if kind == "correlated":
        apart = np.abs(np.subtract.outer(range(FEATURES), range(FEATURES)))
        A = A @ np.linalg.cholesky(0.95**apart).T
    z = A @ (rng.normal(size=FEATURES) * (np.arange(FEATURES) < 8))
    y = (z + rng.logistic(size=rows) > 0) * 1.0
    if kind != "correlated":
        A = A * 10.0 ** rng.uniform(-2, 2, size=FEATURES)
    if kind == "rotated":
        A = A @ np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0]
    return tables(A, y, SITES)


def breast(sites: int) -> list[Table]:
    A, y = load_breast_cancer(return_X_y=True)
    order = np.argsort(y, kind="stable")
    return tables(A[order], 1.0 - y[order], sites)


def cost(spec: Spec, sites: list[Table]) -> dict[str, Any]:
    fit = train(spec, sites)
    made = total(fit.ledger)
    return {
        "exchanges": made.exchanges,
        "kB a site": (made.up + made.down) / len(sites) / 1e3,
        "converged": fit.solution.converged,
        "optimality": fit.solution.optimality,
        "not zero": int(np.count_nonzero(fit.model.coef)),
    }


def run() -> dict[str, Any]:
    base = Spec(target="y", loss="logistic", tol=1e-10, rounds=3000)
    cases = {
        f"{kind}, draw {seed}": (
            base.replace(l1=0.005, standardise=kind != "rotated"),
            drawn(kind, seed),
        )
        for kind in ("scaled", "rotated", "correlated")
        for seed in range(DRAWS)
    }
    cases["breast cancer, five sites"] = (base.replace(l1=0.001, standardise=True), breast(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rows = [
            {"problem": name, "method": method} | cost(spec.replace(algorithm=method), sites)
            for name, (spec, sites) in cases.items()
            for method in METHODS
        ]
        paths = [path(loss, method) for loss in ("logistic", "squared") for method in METHODS]
        kept = [
            {"problem": name, "method": method, "means and spreads": "told" if told else "kept"}
            | cost(spec.replace(algorithm=method, precondition=told), sites)
            for name, (spec, sites) in in_their_units().items()
            for method in METHODS
            for told in (True, False)
        ]
    what = "exchanges to a certificate, all of them counted"
    return {"what": what, "runs": rows, "paths": paths, "privately": kept}


def in_their_units() -> dict[str, tuple[Spec, list[Table]]]:
    """Features as they are measured, whose means and spreads differ by orders of magnitude."""
    base = Spec(target="y", loss="logistic", tol=1e-8, rounds=3000, l1=0.005)
    diabetes = load_diabetes(return_X_y=True, scaled=False)
    return {
        "scaled, draw 0": (base, drawn("scaled", 0)),
        "correlated, draw 0": (base, drawn("correlated", 0)),
        "breast cancer, five sites": (base.replace(l1=0.01), breast(5)),
        "diabetes, seven sites": (base.replace(loss="squared", l1=0.1), tables(*diabetes, 7)),
    }


def path(loss: str, method: str) -> dict[str, Any]:
    """50 weights with 5 folds, and the chosen model."""
    sites = breast(7)
    if loss == "squared":
        sites = tables(*load_diabetes(return_X_y=True), 7)
    spec = Spec(target="y", loss=loss, algorithm=method)
    walked, scores = path_with_folds(spec, sites, Choice())
    fit = train(walked.spec_at(scores.chosen("1se")), sites)
    parts = walked.traffic, scores.traffic, total(fit.ledger)
    return {
        "loss": loss,
        "method": method,
        "exchanges": sum(part.exchanges for part in parts),
        "kB a site": sum(part.up + part.down for part in parts) / len(sites) / 1e3,
        "converged": bool(walked.converged.all() and fit.solution.converged),
    }
