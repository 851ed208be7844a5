"""Problems whose answer is known: linear models with a sparse, grouped or low-rank truth.

`Design` holds the dials they share. The truth is the plain mean of the clients' coefficients.
"""

from collections.abc import Callable

import numpy as np

from proxfl.data.design import STANDARD, Design, federate
from proxfl.data.federated import FederatedData, between, demand, must
from proxfl.pytree import NON_NEGATIVE


def lasso(
    design: Design = STANDARD,
    *,
    nonzeros: int = 5,
    strength: float = 1.0,
    noise: float = 0.1,
    seed: int,
) -> FederatedData:
    """Linear regression on a few features, at random places, of coefficients +- strength."""
    choices = {"nonzeros": int(nonzeros), "strength": float(strength), "noise": float(noise)}
    truth = sparse(design, nonzeros, strength)
    return federate("lasso", design, truth, plus_noise(noise), choices, seed)


def logistic(
    design: Design = STANDARD, *, nonzeros: int = 5, strength: float = 1.0, seed: int
) -> FederatedData:
    """Labels -1 and +1, the latter with probability 1 / (1 + exp(-score)); a sparse truth."""

    def answer(rng, scores):
        odds = rng.logistic(size=scores.shape)  # P(odds < score) is the sigmoid of the score
        return np.where(odds < scores, 1.0, -1.0)

    choices = {"nonzeros": int(nonzeros), "strength": float(strength)}
    truth = sparse(design, nonzeros, strength)
    return federate("logistic", design, truth, answer, choices, seed)


def poisson(
    design: Design = STANDARD, *, nonzeros: int = 5, strength: float = 0.3, seed: int
) -> FederatedData:
    """Counts of mean exp(score); a sparse truth."""

    def answer(rng, scores):
        largest = scores.max()
        demand(
            largest < 30,  # counts of 1e13 are exact in float64, and no data are like that
            f"some Poisson means reach exp({largest:.3g}); lower strength or the design's shifts.",
        )
        return rng.poisson(np.exp(scores)).astype(float)

    choices = {"nonzeros": int(nonzeros), "strength": float(strength)}
    truth = sparse(design, nonzeros, strength)
    return federate("poisson", design, truth, answer, choices, seed)


def group_sparse(
    design: Design = STANDARD,
    *,
    group: int = 5,
    active: int = 2,
    strength: float = 1.0,
    noise: float = 0.1,
    seed: int,
) -> FederatedData:
    """Linear regression where consecutive features act in groups, and only a few groups act."""
    groups = design.features // max(group, 1)
    fits = group >= 1 and groups * group == design.features
    demand(fits, f"group must divide the {design.features} features, got {group}.")
    must("active", active, between(0, groups, "groups"))

    def truth(rng):
        acts = rng.permutation(groups) < active
        return (acts[:, None] * rng.normal(0.0, strength, (groups, group))).ravel()

    choices = {"group": int(group), "active": int(active)}
    choices |= {"strength": float(strength), "noise": float(noise)}
    return federate("group_sparse", design, truth, plus_noise(noise), choices, seed)


def low_rank(
    design: Design = STANDARD,
    *,
    outputs: int = 10,
    rank: int = 2,
    strength: float = 1.0,
    noise: float = 0.1,
    seed: int,
) -> FederatedData:
    """Regression on several outputs at once; all singular values of the truth equal strength."""
    least = min(design.features, outputs)
    must("rank", rank, between(1, least, "rows or columns of the truth"))

    def truth(rng):
        left, _ = np.linalg.qr(rng.standard_normal((design.features, rank)))
        right, _ = np.linalg.qr(rng.standard_normal((outputs, rank)))
        return strength * left @ right.T

    choices = {"outputs": int(outputs), "rank": int(rank)}
    choices |= {"strength": float(strength), "noise": float(noise)}
    return federate("low_rank", design, truth, plus_noise(noise), choices, seed)


def sparse(
    design: Design, nonzeros: int, strength: float
) -> Callable[[np.random.Generator], np.ndarray]:
    """Draws +- strength at `nonzeros` random places and zero elsewhere."""
    d = design.features
    must("nonzeros", nonzeros, between(0, d, "features"))
    return lambda rng: (rng.permutation(d) < nonzeros) * rng.choice([-strength, strength], d)


def plus_noise(noise: float) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """Answers with the score and a normal error of the given standard deviation."""
    must("noise", noise, NON_NEGATIVE)
    return lambda rng, scores: scores + noise * rng.standard_normal(scores.shape)
