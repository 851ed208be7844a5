"""A federation weighted by rows finds the model of trusted solvers on the pooled rows.

Each problem is solved for twice, with sites made of labels in order and of rows in order. The
references are scikit-learn's coordinate descent and a conic interior-point solver.
"""

import cvxpy as cp
import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import ElasticNet, Lasso

from proxfl.precision import precision
from proxfl.tables import Table
from proxfl.train.drivers.compiled import solve
from proxfl.train.model import Model
from proxfl.train.path import ready
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of, train

SITES, TOL = 4, 1e-9
NAMES = lambda X: tuple(f"x{j}" for j in range(X.shape[1]))


def breast():
    """Malignant is the second class, so that coefficients are mostly positive."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X, 1.0 - y


def digits():
    X, y = datasets.load_digits(n_class=3, return_X_y=True)
    return X, y.astype(float)


DATA = {
    "breast": breast,
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "digits": digits,
}
THREE_EACH = {f"x{j}": f"g{j % 10}" for j in range(30)}  # mean, error and worst of a measurement

CASES = {
    "breast l1": ("breast", {"loss": "logistic", "l1": 0.01}),
    "breast group": ("breast", {"loss": "logistic", "group": THREE_EACH, "group_weight": 0.02}),
    "breast non-negative": ("breast", {"loss": "logistic", "l1": 0.002, "nonneg": True}),
    "diabetes l1": ("diabetes", {"loss": "squared", "l1": 0.2}),
    "diabetes elastic net": ("diabetes", {"loss": "squared", "l1": 0.1, "l2": 0.001}),
    "diabetes non-negative": ("diabetes", {"loss": "squared", "l1": 0.1, "nonneg": True}),
    "wine softmax l1": ("wine", {"loss": "softmax", "l1": 0.05}),
    "wine softmax group": ("wine", {"loss": "softmax", "group_weight": 0.05}),
    "wine nuclear": ("wine", {"loss": "softmax", "nuclear": 0.05, "standardise": True}),
    "digits softmax elastic net": ("digits", {"loss": "softmax", "l1": 0.02, "l2": 0.01}),
}

# One of each penalty also as `proxfl train` solves for it, which compiles more; that the two take
# the same rounds is a law of tests/train/test_adaptive.py.
TRAINED = {"breast group", "diabetes l1", "diabetes non-negative", "wine softmax l1"}


def spec_of(options):
    return Spec(target="y", tol=TOL, rounds=5000, **options)


def sites(X, y, order):
    """Sites that hold parts of the rows in this order."""
    parts = np.array_split(order, SITES)
    table = lambda i, rows: Table(f"site {i}", "", "y", NAMES(X), X[rows], y[rows] * 1.0, "")
    return [table(i, rows) for i, rows in enumerate(parts)]


def by_paths(spec, tables):
    """As a path or an estimator solves for a model: all rounds in one program."""
    with precision(np.float64):
        sites = ready(spec, tables)
        solved = solve(sites.problem, sites.shards, settings_of(spec))
    return Model.of(spec.loss, sites.agreement, solved.x), solved


def by_training(spec, tables):
    """As `proxfl train` does: one round after the other."""
    fit = train(spec, tables)
    return fit.model, fit.solution


def objective(spec, X, y, coef, intercept):
    """The pooled objective as the help prints it, written anew in NumPy."""
    z = X @ coef + intercept
    if spec.loss == "squared":
        losses = (z - y) ** 2 / 2
    elif spec.loss == "logistic":
        losses = np.logaddexp(0, -(2 * y - 1) * z)
    else:
        most = z.max(axis=1, keepdims=True)
        logsum = most[:, 0] + np.log(np.exp(z - most).sum(axis=1))
        losses = logsum - z[np.arange(len(y)), y.astype(int)]
    scaled = coef * X.std(axis=0)[:, None] if spec.standardise else coef
    value = losses.mean() + spec.l1 * np.abs(scaled).sum() + spec.l2 / 2 * np.sum(scaled**2)
    if spec.nuclear:
        value += spec.nuclear * np.linalg.svd(scaled, compute_uv=False).sum()
    for rows in groups_of(spec, X):
        block = scaled[rows]
        value += spec.group_weight * np.sqrt(block.size) * np.linalg.norm(block)
    return value


def groups_of(spec, X):
    if not spec.group_weight:
        return []
    labels = spec.group or {name: name for name in NAMES(X)}
    names = sorted(set(labels.values()))
    return [[j for j, f in enumerate(NAMES(X)) if labels[f] == name] for name in names]


def by_coordinate_descent(spec, X, y):
    exact = {"positive": spec.nonneg, "tol": 1e-15, "max_iter": 1_000_000}
    if not spec.l2:
        found = Lasso(spec.l1, **exact).fit(X, y)
    else:
        total = spec.l1 + spec.l2
        found = ElasticNet(total, l1_ratio=spec.l1 / total, **exact).fit(X, y)
    return found.coef_, found.intercept_


def by_interior_points(spec, X, y):
    """The same problem as a cone program, in standardised features for its numbers' sake."""
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    A, unit = (X - X.mean(axis=0)) / spread, 1 / spread
    unit = np.ones_like(spread) if spec.standardise else unit
    outputs = len(np.unique(y)) if spec.loss == "softmax" else 1
    u, b = cp.Variable((X.shape[1], outputs)), cp.Variable((1, outputs))
    z, coef = A @ u + np.ones((len(y), 1)) @ b, cp.multiply(unit[:, None], u)
    if outputs == 1:
        losses = cp.logistic(cp.multiply(-(2 * y - 1)[:, None], z))
    else:
        chosen = np.eye(outputs)[y.astype(int)]
        losses = cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(chosen, z), axis=1)
    F = cp.sum(losses) / len(y) + spec.l1 * cp.sum(cp.abs(coef))
    F += spec.l2 / 2 * cp.sum_squares(coef)
    F += spec.nuclear * cp.normNuc(coef) if spec.nuclear else 0
    for rows in groups_of(spec, X):
        F += spec.group_weight * np.sqrt(len(rows) * outputs) * cp.norm(cp.vec(coef[rows], "F"))
    strict = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_iter": 200}
    problem = cp.Problem(cp.Minimize(F), [u >= 0] if spec.nonneg else [])
    problem.solve(solver=cp.CLARABEL, **strict)
    found = u.value / spread[:, None]
    shift = (b.value - (X.mean(axis=0) @ found))[0]
    return (found, shift) if outputs > 1 else (found[:, 0], shift[0])


def support(X, coef):
    """What is not zero, but for an interior point's last digits, by its effect on the scores."""
    effect = np.abs(coef * (X.std(axis=0) if coef.ndim == 1 else X.std(axis=0)[:, None]))
    return effect > 1e-5 * effect.max()


@pytest.mark.parametrize("name", CASES)
def test_the_federated_model_is_that_of_a_trusted_solver_on_the_pooled_rows(name):
    data, options = CASES[name]
    (X, y), spec = DATA[data](), spec_of(options)
    reference = by_coordinate_descent if spec.loss == "squared" else by_interior_points
    trusted = reference(spec, X, y)
    least = objective(spec, X, y, *trusted)
    by_label, by_row = np.argsort(y, kind="stable"), np.arange(len(y))
    first = by_training if name in TRAINED else by_paths
    for order, fit in ((by_label, first), (by_row, by_paths)):
        model, solved = fit(spec, sites(X, y, order))
        found = objective(spec, X, y, model.coef, model.intercept)
        assert solved.converged
        assert found == pytest.approx(least, rel=1e-9, abs=0)
        assert found == pytest.approx(solved.objective, rel=1e-12)
        if not spec.nuclear:
            np.testing.assert_array_equal(model.coef != 0, support(X, trusted[0]))
        else:
            rank = np.linalg.matrix_rank
            assert rank(model.coef, 1e-8) == rank(trusted[0], 1e-5)
