"""Problems drawn by seed, as tables and options, and the same objectives for a conic solver."""

import warnings
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from proxfl.tables import Table
from proxfl.train.spec import Spec

LOSSES = ("logistic", "squared", "huber", "poisson", "softmax", "gamma", "negbin", "cox")


def drawn(seed: int) -> tuple[Spec, list[Table]]:
    """A spec and sites: features in different units, some correlated, sites that differ."""
    rng = np.random.default_rng(seed)
    loss, features, sites = LOSSES[seed % 8], int(rng.integers(1, 8)), int(rng.integers(1, 6))
    rows = rng.integers(1, 30, size=sites) + (8 if sites == 1 else 0)
    mixing = np.eye(features) + rng.choice([0.0, 1.0]) * rng.normal(size=(features, features))
    A = rng.normal(size=(rows.sum(), features)) @ mixing + rng.normal(size=features)
    z = A @ rng.normal(size=(features, 3)) / features + rng.gumbel(size=(rows.sum(), 3))
    parts = np.split(np.arange(len(z)), np.cumsum(rows)[:-1])
    y, A = labels(loss, rng, z), A * 10.0 ** rng.uniform(-2, 2, size=features)
    about, target = {"target": "y"}, "y"
    if loss == "cox":
        y[[part[0] for part in parts], 1] = 1.0  # a site without an event is refused
        target = ("time", "event")
        about = {
            "time": "time",
            "event": "event",
            "cox_ties": str(rng.choice(["breslow", "efron"])),
        }
    names = tuple(f"x{j}" for j in range(features))
    tables = [Table(f"s{i}", "", target, names, A[p], y[p], "") for i, p in enumerate(parts)]
    return Spec(loss=loss, tol=1e-10, **about, **options(rng, loss, names)), tables


def labels(loss: str, rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    mean = np.exp(np.clip(z[:, 0], -3, 3))
    made = {
        "logistic": lambda: (z[:, 0] > np.median(z[:, 0])) * 1.0,
        "softmax": lambda: np.append(z.argmax(axis=1)[:-3], [0, 1, 2]) * 1.0,
        "poisson": lambda: rng.poisson(mean) * 1.0,
        "gamma": lambda: mean * rng.gamma(2.0, size=len(z)) + 1e-3,
        "negbin": lambda: rng.poisson(mean * rng.gamma(1.0, size=len(z))) * 1.0,
        # Whole days, so that there are ties.
        "cox": lambda: np.column_stack([np.ceil(3 / mean), rng.random(len(z)) < 0.7]),
    }
    return made.get(loss, lambda: z[:, 0])()


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
        kinds = [*kinds[:4], {"group_weight": weight}, {"nuclear": weight}]
    else:
        kinds.append({"simplex": 1.0})
    found = dict(kinds[rng.integers(len(kinds))])
    found |= {"standardise": bool(rng.integers(2))}
    if "simplex" in found:  # else exponentials start so far away that any model is near to that
        found["standardise"] = True
    if loss not in ("softmax", "cox"):
        found |= {"intercept": bool(rng.integers(4) > 0)}
    return found | {"weights": str(rng.choice(["samples", "uniform"]))}


class Reference(NamedTuple):
    """The objective written out for the pooled rows, in standardised features."""

    spec: Spec
    objective: cp.Expression
    limits: list[cp.Constraint]
    u: cp.Variable
    b: cp.Variable
    mean: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, spec: Spec, tables: list[Table]) -> "Reference":
        A, y = (np.concatenate([getattr(t, name) for t in tables]) for name in ("A", "y"))
        rows = np.array([t.rows for t in tables])
        each = rows if spec.weights == "samples" else np.ones(len(rows))
        w, site = np.repeat(each / each.sum() / rows, rows), np.repeat(np.arange(len(rows)), rows)
        spread, mean = A.std(axis=0), A.mean(axis=0)
        spread = np.where(spread > 1e-13 * np.abs(mean), spread, 1.0)
        mean = mean if spec.intercept else 0 * mean
        outputs = 3 if spec.loss == "softmax" else 1
        u, b = cp.Variable((A.shape[1], outputs)), cp.Variable((1, outputs))
        z = ((A - mean) / spread) @ u + np.ones((len(y), 1)) @ b
        coef = u if spec.standardise else cp.multiply(1 / spread[:, None], u)
        loss = hazards(spec, z[:, 0], y, w, site) if spec.loss == "cox" else w @ losses(spec, z, y)
        limits = [] if spec.intercept else [b == 0]
        if spec.box:
            limits += [coef >= spec.box[0], coef <= spec.box[1]]
        if spec.nonneg or spec.simplex:
            limits.append(coef >= 0)
        if spec.simplex:
            limits.append(cp.sum(coef) == spec.simplex)
        return cls(spec, loss + penalty(spec, coef, outputs), limits, u, b, mean, spread)

    def at(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """The objective of a model, which must be within the limits."""
        coef = coef.reshape(self.u.shape)
        self.u.value = self.spread[:, None] * coef
        self.b.value = np.reshape(intercept, self.b.shape) + self.mean @ coef
        assert all(np.max(limit.violation()) <= 1e-12 for limit in self.limits)
        return float(self.objective.value)

    def least(self) -> float:
        """The objective where an interior-point method ends, moved within the limits.

        Whatever its accuracy, no model has less than the least one.
        """
        strict = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_iter": 300}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            cp.Problem(cp.Minimize(self.objective), self.limits).solve(cp.CLARABEL, **strict)
        coef, spec = self.u.value / self.spread[:, None], self.spec
        unit = self.spread[:, None] if spec.standardise else 1.0
        inside = unit * coef
        if spec.box:
            inside = np.clip(inside, *spec.box)
        if spec.nonneg or spec.simplex:
            inside = np.maximum(inside, 0.0)
        if spec.simplex:
            inside = inside * spec.simplex / inside.sum()
        b = self.b.value if spec.intercept else np.zeros(self.b.shape)
        return self.at(inside / unit, b - self.mean @ (inside / unit))


def losses(spec: Spec, z, y):
    """Of each row."""
    if spec.loss == "softmax":
        chosen = np.eye(3)[y.astype(int)]
        return cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(chosen, z), axis=1)
    z, most = z[:, 0], y + 1 / spec.negbin_dispersion
    return {
        "logistic": lambda: cp.logistic(cp.multiply(-(2 * y - 1), z)),
        "squared": lambda: cp.square(z - y) / 2,
        "huber": lambda: cp.huber(z - y, 1.0) / 2,
        "poisson": lambda: cp.exp(z) - cp.multiply(y, z),
        "gamma": lambda: cp.multiply(y, cp.exp(-z)) + z,
        "negbin": lambda: (
            cp.multiply(most, cp.logistic(z + np.log(spec.negbin_dispersion))) - cp.multiply(y, z)
        ),
    }[spec.loss]()


def hazards(spec: Spec, z, y, w, site):
    """The partial likelihood of all sites, from the list of their risk sets."""
    (time, event), terms = y.T, [0.0]
    for place in sorted({(s, t) for s, t, died in zip(site, time, event, strict=True) if died}):
        at_risk = np.flatnonzero((site == place[0]) & (time >= place[1]))
        tied = at_risk[(time[at_risk] == place[1]) & (event[at_risk] == 1)]
        for k in range(len(tied)):
            part = k / len(tied) if spec.cox_ties == "efron" else 0.0
            counted = np.where(np.isin(at_risk, tied), 1 - part, 1.0)
            term = cp.log_sum_exp(z[at_risk] + np.log(counted)) - z[tied[k]]
            terms.append(w[tied[k]] * term)
    return sum(terms)


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
