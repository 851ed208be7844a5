"""The problems that ship with ProxFL: small, hard in different ways, drawn anew for every seed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from proxfl.data import Design, Scaling, group_sparse, lasso, logistic, low_rank, synthetic
from proxfl.losses import Logistic, SigmoidLoss, Squared
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1, GroupL2, Nuclear, Simplex

SKEWED = Design(clients=10, rows=60, features=20, feature_shift=1.0, coef_shift=1.0)


class Shipped(NamedTuple):
    problem: Problem
    shards: Shard


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
