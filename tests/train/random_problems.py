"""Problems drawn by seed, as tables and options, and their least objective by a conic solver."""

import cvxpy as cp
import numpy as np

from proxfl.tables import Table
from proxfl.train.spec import Spec

LOSSES = ("logistic", "squared", "huber", "poisson", "softmax")


def drawn(seed: int) -> tuple[Spec, list[Table]]:
    """A spec and sites: features in different units, some correlated, sites that differ."""
    rng = np.random.default_rng(seed)
    loss, features, sites = LOSSES[seed % 5], int(rng.integers(1, 8)), int(rng.integers(1, 6))
    rows = rng.integers(1, 30, size=sites) + (8 if sites == 1 else 0)
    mixing = np.eye(features) + rng.choice([0.0, 1.0]) * rng.normal(size=(features, features))
    A = rng.normal(size=(rows.sum(), features)) @ mixing + rng.normal(size=features)
    z = A @ rng.normal(size=(features, 3)) / features + rng.gumbel(size=(rows.sum(), 3))
    y = {
        "logistic": (z[:, 0] > np.median(z[:, 0])) * 1.0,
        "softmax": np.append(z.argmax(axis=1)[:-3], [0, 1, 2]) * 1.0,
        "poisson": rng.poisson(np.exp(np.clip(z[:, 0], -3, 3))) * 1.0,
    }.get(loss, z[:, 0])
    A = A * 10.0 ** rng.uniform(-2, 2, size=features)
    names = tuple(f"x{j}" for j in range(features))
    parts = np.split(np.arange(len(y)), np.cumsum(rows)[:-1])
    tables = [Table(f"s{i}", "", "y", names, A[p], y[p], "") for i, p in enumerate(parts)]
    return Spec(target="y", loss=loss, tol=1e-10, **options(rng, loss, names)), tables


def options(rng: np.random.Generator, loss: str, names: tuple[str, ...]) -> dict:
    """Penalties that go together, and leave no optimum at infinity."""
    weight = float(10.0 ** rng.uniform(-3, -1))
    kinds = [
        {"l1": weight},
        {"l2": weight},
        {"l1": weight, "l2": weight},
        {"box": (-weight, 2.0)},
        {"l1": weight, "nonneg": True},
        {"group_weight": weight, "group": {name: f"g{j // 2}" for j, name in enumerate(names)}},
    ]
    if loss == "softmax":
        kinds = [*kinds[:3], {"group_weight": weight}, {"nuclear": weight}]
    else:
        kinds.append({"simplex": 1.0})
    found = dict(kinds[rng.integers(len(kinds))])
    found |= {"standardise": bool(rng.integers(2)), "intercept": bool(rng.integers(4) > 0)}
    if loss == "softmax" and not found["intercept"]:
        found |= {"intercept": True}
    return found | {"weights": str(rng.choice(["samples", "uniform"]))}


def least_objective(spec: Spec, tables: list[Table]) -> float:
    """By an interior-point method on the pooled rows, in standardised features."""
    A, y = (np.concatenate([getattr(t, name) for t in tables]) for name in ("A", "y"))
    each = [t.rows if spec.weights == "samples" else 1.0 for t in tables]
    w = np.repeat(
        np.array(each) / np.sum(each) / [t.rows for t in tables], [t.rows for t in tables]
    )
    spread, mean = A.std(axis=0), A.mean(axis=0)
    spread = np.where(spread > 1e-13 * np.abs(mean), spread, 1.0)
    if not spec.intercept:
        mean = 0 * mean
    outputs = 3 if spec.loss == "softmax" else 1
    u, b = cp.Variable((A.shape[1], outputs)), cp.Variable((1, outputs))
    z = ((A - mean) / spread) @ u + np.ones((len(y), 1)) @ b
    coef = u if spec.standardise else cp.multiply(1 / spread[:, None], u)
    F = w @ losses(spec.loss, z, y) + penalty(spec, coef, outputs)
    limits = [] if spec.intercept else [b == 0]
    if spec.box:
        limits += [coef >= spec.box[0], coef <= spec.box[1]]
    if spec.nonneg or spec.simplex:
        limits.append(coef >= 0)
    if spec.simplex:
        limits.append(cp.sum(coef) == spec.simplex)
    strict = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_iter": 300}
    problem = cp.Problem(cp.Minimize(F), limits)
    problem.solve(solver=cp.CLARABEL, **strict)
    return float(problem.value)


def losses(name: str, z, y):
    if name == "softmax":
        chosen = np.eye(3)[y.astype(int)]
        return cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(chosen, z), axis=1)
    z = z[:, 0]
    return {
        "logistic": lambda: cp.logistic(cp.multiply(-(2 * y - 1), z)),
        "squared": lambda: cp.square(z - y) / 2,
        "huber": lambda: cp.huber(z - y, 1.0) / 2,
        "poisson": lambda: cp.exp(z) - cp.multiply(y, z),
    }[name]()


def penalty(spec: Spec, coef, outputs: int):
    F = spec.l1 * cp.sum(cp.abs(coef)) + spec.l2 / 2 * cp.sum_squares(coef)
    if spec.nuclear:
        F += spec.nuclear * cp.normNuc(coef)
    if spec.group_weight:
        names = [f"x{j}" for j in range(coef.shape[0])]
        group = spec.group or {name: name for name in names}
        for label in set(group.values()):
            rows = [j for j, name in enumerate(names) if group[name] == label]
            norm = cp.norm(cp.vec(coef[rows], "F"))
            F += spec.group_weight * np.sqrt(len(rows) * outputs) * norm
    return F
