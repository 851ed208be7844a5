"""The problems that ship with ProxFL: small, hard in different ways, drawn anew for every seed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from proxfl.data import Design, Scaling, group_sparse, lasso, logistic, low_rank, synthetic
from proxfl.losses import Logistic, SigmoidLoss, Squared
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1, GroupL2, Nuclear, Simplex, Zero

SKEWED = Design(clients=10, rows=60, features=20, feature_shift=1.0, coef_shift=1.0)


class Shipped(NamedTuple):
    problem: Problem
    shards: Shard
    cohort: int | None = None  # so many clients answer in a round; all if None
    most_rounds: int | None = None  # that a league plays, where a round is dear


def made(loss, g, x0, sites) -> Shipped:
    with precision(np.float64):
        return Shipped(Problem(g, x0, loss), shards_of(sites))


def l1_logistic(seed: int) -> Shipped:
    """Sparse logistic regression on synthetic(1, 1): the paper's problem, with milder features."""
    data = synthetic(1.0, 1.0, scaling=Scaling("raw", smoothness=1.0), seed=seed)
    return made(
        Logistic(), L1(data.recipe["facts"]["gradient_at_zero"] / 10), np.zeros(20), data.sites
    )


def l1_least_squares(seed: int) -> Shipped:
    """The lasso with a known support."""
    data = lasso(SKEWED, nonzeros=5, seed=seed)
    return made(Squared(), L1(0.1), np.zeros(20), data.sites)


def ill_conditioned(seed: int) -> Shipped:
    """Sparse logistic regression whose features have a condition number of 100."""
    design = Design(
        clients=20, rows=60, features=40, condition=100.0, feature_shift=1.0, coef_shift=1.0
    )
    data = logistic(design, nonzeros=8, seed=seed)
    return made(Logistic(), L1(1e-3), np.zeros(40), data.sites)


def group_lasso(seed: int) -> Shipped:
    """Least squares with four groups of five features, two of them active."""
    data = group_sparse(SKEWED, group=5, active=2, seed=seed)
    return made(Squared(), GroupL2.of(np.arange(20) // 5, 0.1), np.zeros(20), data.sites)


def nuclear(seed: int) -> Shipped:
    """Regression onto six outputs with a coefficient matrix of rank two."""
    data = low_rank(SKEWED, outputs=6, rank=2, seed=seed)
    return made(Squared(), Nuclear(0.3), np.zeros((20, 6)), data.sites)


def sigmoid(seed: int) -> Shipped:
    """A non-convex loss: a smooth count of mistakes, with an l1 penalty."""
    data = logistic(SKEWED, nonzeros=5, seed=seed)
    return made(SigmoidLoss(), L1(2e-3), np.zeros(20), data.sites)


def simplex(seed: int) -> Shipped:
    """Least squares over the probability simplex."""
    data = lasso(SKEWED, nonzeros=5, seed=seed)
    return made(Squared(), Simplex(1.0), np.full(20, 0.05), data.sites)


PROBLEMS: dict[str, Callable[[int], Shipped]] = {
    "l1-logistic": l1_logistic,
    "l1-least-squares": l1_least_squares,
    "ill-conditioned": ill_conditioned,
    "group-lasso": group_lasso,
    "nuclear": nuclear,
    "sigmoid": sigmoid,
    "simplex": simplex,
}


def lasso_of(design: Design, seed: int, g: Any = None, kind: Any = np.float64) -> Shipped:
    """The lasso with other dials than `l1_least_squares`."""
    data = lasso(design, nonzeros=5, seed=seed)
    with precision(kind):
        x0 = np.zeros(design.features, kind)
        return Shipped(Problem(g or L1(0.1), x0, Squared()), shards_of(data.sites, dtype=kind))


def minibatches(seed: int) -> Shipped:
    """The lasso with gradients from five rows of each client's sixty."""
    problem, shards, *_ = l1_least_squares(seed)
    return Shipped(Problem(problem.g, problem.x0, problem.loss, 5), shards)


def half_the_clients(seed: int) -> Shipped:
    """The lasso where five of ten clients answer in a round."""
    return l1_least_squares(seed)._replace(cohort=5)


def single_precision(seed: int) -> Shipped:
    """The lasso in float32."""
    return lasso_of(SKEWED, seed, kind=np.float32)


def alike(seed: int) -> Shipped:
    """The lasso with clients drawn from one distribution."""
    return lasso_of(replace(SKEWED, feature_shift=0.0, coef_shift=0.0), seed)


def far_apart(seed: int) -> Shipped:
    """The lasso with clients three times as different."""
    return lasso_of(replace(SKEWED, feature_shift=3.0, coef_shift=3.0), seed)


def wide(seed: int) -> Shipped:
    """The lasso with 10,000 features, uncorrelated, and 100 rows."""
    design = Design(clients=4, rows=25, features=10_000, correlation=0.0, coef_shift=0.1)
    return lasso_of(design, seed, L1(0.3))._replace(most_rounds=150)


def least_squares(seed: int) -> Shipped:
    """No penalty, so that methods without a prox can enter."""
    return lasso_of(SKEWED, seed, Zero())


def smooth_logistic(seed: int) -> Shipped:
    """Logistic regression on synthetic(1, 1) without a penalty."""
    made = l1_logistic(seed)
    return Shipped(Problem(Zero(), made.problem.x0, made.problem.loss), made.shards)


# The same methods under other conditions.
CONDITIONS: dict[str, Callable[[int], Shipped]] = {
    "minibatches": minibatches,
    "half-the-clients": half_the_clients,
    "single-precision": single_precision,
    "alike": alike,
    "far-apart": far_apart,
    "wide": wide,
    "least-squares": least_squares,
    "logistic": smooth_logistic,
}
