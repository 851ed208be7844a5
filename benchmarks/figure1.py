"""A round of Figure 1's problem (30 clients, 100 rows, 20 features, tau = 10, float64).

The peer is a NumPy loop, vectorised over clients, that does the same arithmetic; both must agree
before they are timed.
"""

import time
from collections.abc import Callable

import numpy as np

import proxfl as px
from proxfl.data import Scaling, synthetic
from proxfl.losses import Logistic
from proxfl.prox import L1

THETA, ETA, ETA_G, TAU = 0.003, 4.0, 15.0, 10


def numpy_rounds(features: np.ndarray, labels: np.ndarray, rounds: int) -> np.ndarray:
    """Algorithm 1 with all clients in one array."""
    n, m, d = features.shape
    long, x, c = ETA * ETA_G * TAU, np.zeros(d), np.zeros((n, d))
    soft = lambda v, s: np.sign(v) * np.maximum(np.abs(v) - s * THETA, 0)
    for _ in range(rounds):
        p = soft(x, long)
        z, total = np.tile(p, (n, 1)), np.zeros((n, d))
        for t in range(TAU):
            margin = labels * np.matmul(features, z[:, :, None])[:, :, 0]
            pull = -labels / (1 + np.exp(margin)) / m
            total += np.matmul(pull[:, None, :], features)[:, 0]
            z = soft(p - ETA * (total + (t + 1) * c), (t + 1) * ETA)
        mean = total / TAU
        c = mean.mean(axis=0) - mean
        x = p - long * mean.mean(axis=0)
    return soft(x, long)


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def run(repeats: int = 7, rounds: int = 200) -> dict:
    data = synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=0.005), seed=0)
    features = np.stack([A for A, _ in data.sites])
    labels = np.stack([y for _, y in data.sites])
    problem = px.Problem(loss=Logistic(), g=L1(THETA), x0=np.zeros(20))
    algorithm = px.Decoupled(ETA, ETA_G, TAU)
    go = lambda: px.simulate(algorithm, problem, data.sites, rounds=rounds, every=10)
    first = go()
    np.testing.assert_allclose(first.model, numpy_rounds(features, labels, rounds), atol=1e-10)
    ours, theirs = [], []
    for _ in range(repeats):  # interleaved, so that both see the same machine
        ours.append(go().history["seconds"][-1] / rounds)
        theirs.append(seconds(lambda: numpy_rounds(features, labels, rounds)) / rounds)
    ratios = np.array(theirs) / np.array(ours)
    return {
        "what": "a round of Figure 1's problem, metrics every 10th round",
        "proxfl_us": 1e6 * float(np.median(ours)),
        "numpy_us": 1e6 * float(np.median(theirs)),
        "ratio": float(np.median(ratios)),
        "ratio_range": [float(ratios.min()), float(ratios.max())],
        "compile_seconds": first.compile_seconds,
    }
