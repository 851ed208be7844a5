"""A round of Figure 1's problem (30 clients, 100 rows, 20 features, tau = 10, float64).

All metrics of the paper are taken every 10th round by all sides, which must agree on the model and
on the metrics before they are timed. Peers: NumPy with all clients in one array, by matmul and by
einsum, and NumPy one client after the other, as one would write it from the paper.
"""

from typing import Any

import numpy as np

import proxfl as px
from benchmarks.side import interleaved
from proxfl.data import Scaling, synthetic
from proxfl.engine.measure import (
    Info,
    LambdaTerm,
    MeanCorrection,
    Nonzeros,
    ObjectiveValue,
    optimality,
)
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.prox import L1

THETA, ETA, ETA_G, TAU, EVERY = 0.003, 4.0, 15.0, 10, 10
LONG = ETA * ETA_G * TAU


def soft(v: np.ndarray, step: float) -> np.ndarray:
    return np.sign(v) * np.maximum(np.abs(v) - step * THETA, 0)


def by_matmul(features: np.ndarray, labels: np.ndarray, z: np.ndarray) -> np.ndarray:
    margin = labels * np.matmul(features, z[:, :, None])[:, :, 0]
    pull = -labels / (1 + np.exp(margin)) / features.shape[1]
    return np.matmul(pull[:, None, :], features)[:, 0]


def by_einsum(features: np.ndarray, labels: np.ndarray, z: np.ndarray) -> np.ndarray:
    margin = labels * np.einsum("imd,id->im", features, z)
    pull = -labels / (1 + np.exp(margin)) / features.shape[1]
    return np.einsum("im,imd->id", pull, features)


def together(
    features: np.ndarray, labels: np.ndarray, rounds: int, gradient: Any
) -> tuple[np.ndarray, list]:
    """Algorithm 1 with all clients in one array."""
    n, _, d = features.shape
    x, c, rows = np.zeros(d), np.zeros((n, d)), []
    gradients = lambda z: gradient(features, labels, z)

    for r in range(rounds):
        p = soft(x, LONG)
        z, total = np.tile(p, (n, 1)), np.zeros((n, d))
        for t in range(TAU):
            total += gradients(z)
            z = soft(p - ETA * (total + (t + 1) * c), (t + 1) * ETA)
        mean = total / TAU
        x = p - LONG * mean.mean(axis=0)
        c = mean.mean(axis=0) - mean
        if (r + 1) % EVERY == 0:
            drift = np.linalg.norm(z - p, axis=1).mean()
            rows.append(metrics(features, labels, gradients, soft(x, LONG), c, drift))
    return soft(x, LONG), rows


def metrics(features, labels, gradients, x, c, drift) -> list[float]:
    each = gradients(np.tile(x, (len(features), 1)))
    mean = each.mean(axis=0)
    loss = np.logaddexp(0, -labels * (features @ x)).mean()
    around = each + c - (mean + c.mean(axis=0))
    return [
        loss + THETA * np.abs(x).sum(),
        np.linalg.norm(x - soft(x - mean, 1.0)),
        np.count_nonzero(x),
        np.linalg.norm(c.mean(axis=0)),
        (ETA * TAU) ** 2 * (around**2).sum(axis=1).mean() / LONG,
        drift,
    ]


def in_turn(features: np.ndarray, labels: np.ndarray, rounds: int) -> np.ndarray:
    """The same one client at a time, without metrics."""
    n, m, d = features.shape
    x, c = np.zeros(d), np.zeros((n, d))
    for _ in range(rounds):
        p, total = soft(x, LONG), np.zeros((n, d))
        for i in range(n):
            z_hat = z = p
            for t in range(TAU):
                pull = -labels[i] / (1 + np.exp(labels[i] * (features[i] @ z))) / m
                grad = pull @ features[i]
                total[i] += grad
                z_hat = z_hat - ETA * (grad + c[i])
                z = soft(z_hat, (t + 1) * ETA)
        mean = total / TAU
        x = p - LONG * mean.mean(axis=0)
        c = mean.mean(axis=0) - mean
    return soft(x, LONG)


def run(repeats: int = 9, rounds: int = 1000) -> dict[str, Any]:
    data = synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=0.005), seed=0)
    features = np.stack([A for A, _ in data.sites])
    labels = np.stack([y for _, y in data.sites])
    problem = px.Problem(loss=Logistic(), g=L1(THETA), x0=np.zeros(20))
    with precision(np.float64):
        shards = px.shards_of(data.sites)
        relative = optimality(problem, shards)
    observe = {
        "objective": ObjectiveValue(),
        "optimality": relative,
        "nonzeros": Nonzeros(),
        "mean correction": MeanCorrection(),
        "lambda": LambdaTerm(),
        "drift": Info("drift"),
    }
    ours = lambda: px.simulate(
        px.Decoupled(ETA, ETA_G, TAU),
        problem,
        shards,
        rounds=rounds,
        every=EVERY,
        observe=observe,
        progress=False,
    )
    first = ours()
    model, rows = together(features, labels, rounds, by_matmul)
    np.testing.assert_allclose(first.model, model, atol=1e-10)
    model, _ = together(features, labels, rounds, by_einsum)
    np.testing.assert_allclose(first.model, model, atol=1e-10)
    np.testing.assert_allclose(first.model, in_turn(features, labels, rounds), atol=1e-10)
    wanted = np.array(rows) / [1, relative.reference, 1, 1, 1, 1]
    found = np.stack([first.history[name][1:] for name in observe], axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    calls = {
        "proxfl": ours,
        "NumPy, matmul over all clients": lambda: together(features, labels, rounds, by_matmul),
        "NumPy, einsum over all clients": lambda: together(features, labels, rounds, by_einsum),
        "NumPy, one client at a time": lambda: in_turn(features, labels, rounds),
    }
    return {
        "what": "one round of Figure 1's problem; all metrics every 10th round",
        "times": interleaved(calls, repeats, rounds),
        "compilation, in seconds": first.compile_seconds,
    }
