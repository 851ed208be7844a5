"""Problems whose answer is known: linear models with a sparse, grouped or low-rank truth.

`Design` holds the dials they share. The truth is the plain mean of the clients' coefficients.
"""

from collections.abc import Callable

import numpy as np

from proxfl.data.design import STANDARD, Design, federate
from proxfl.data.federated import Federation, demand


def lasso(
    design: Design = STANDARD,
    *,
    nonzeros: int = 5,
    strength: float = 1.0,
    noise: float = 0.1,
    seed: int,
) -> Federation:
    """Linear regression on a few features, at random places, of coefficients +- strength."""
    return federate(
        "lasso",
        design,
        sparse(design.features, nonzeros, strength),
        plus_noise(noise),
        nonzeros=int(nonzeros),
        strength=float(strength),
        noise=float(noise),
        seed=seed,
    )


def logistic(
    design: Design = STANDARD, *, nonzeros: int = 5, strength: float = 1.0, seed: int
) -> Federation:
    """Labels -1 and +1, the latter with probability 1 / (1 + exp(-score)); a sparse truth."""

    def answer(rng, scores):
        odds = rng.logistic(size=scores.shape)  # P(odds < score) is the sigmoid of the score
        return np.where(odds < scores, 1.0, -1.0)

    return federate(
        "logistic",
        design,
        sparse(design.features, nonzeros, strength),
        answer,
        nonzeros=int(nonzeros),
        strength=float(strength),
        seed=seed,
    )


def poisson(
    design: Design = STANDARD, *, nonzeros: int = 5, strength: float = 0.3, seed: int
) -> Federation:
    """Counts of mean exp(score); a sparse truth."""

    def answer(rng, scores):
        largest = scores.max()
        demand(
            largest < 30,  # counts of 1e13 are exact in float64, and no data are like that
            f"some Poisson means reach exp({largest:.3g}); lower strength or the design's shifts.",
        )
        return rng.poisson(np.exp(scores)).astype(float)

    return federate(
        "poisson",
        design,
        sparse(design.features, nonzeros, strength),
        answer,
        nonzeros=int(nonzeros),
        strength=float(strength),
        seed=seed,
    )


def group_sparse(
    design: Design = STANDARD,
    *,
    group: int = 5,
    active: int = 2,
    strength: float = 1.0,
    noise: float = 0.1,
    seed: int,
) -> Federation:
    """Linear regression where consecutive features act in groups, and only a few groups act."""
    groups = design.features // max(group, 1)
    demand(
        group >= 1 and groups * group == design.features,
        f"group must divide the {design.features} features, got {group}; change one of them.",
    )
    demand(
        0 <= active <= groups,
        f"active must be between 0 and the {groups} groups, got {active}; lower it.",
    )

    def truth(rng):
        acts = rng.permutation(groups) < active
        return (acts[:, None] * rng.normal(0.0, strength, (groups, group))).ravel()

    return federate(
        "group_sparse",
        design,
        truth,
        plus_noise(noise),
        group=int(group),
        active=int(active),
        strength=float(strength),
        noise=float(noise),
        seed=seed,
    )


def low_rank(
    design: Design = STANDARD,
    *,
    outputs: int = 10,
    rank: int = 2,
    strength: float = 1.0,
    noise: float = 0.1,
    seed: int,
) -> Federation:
    """Regression on several outputs at once; all singular values of the truth equal strength."""
    most = min(design.features, outputs)
    demand(
        1 <= rank <= most,
        f"rank must be between 1 and {most}, the smaller side of the truth, got {rank}; lower it.",
    )

    def truth(rng):
        left, _ = np.linalg.qr(rng.standard_normal((design.features, rank)))
        right, _ = np.linalg.qr(rng.standard_normal((outputs, rank)))
        return strength * left @ right.T

    return federate(
        "low_rank",
        design,
        truth,
        plus_noise(noise),
        outputs=int(outputs),
        rank=int(rank),
        strength=float(strength),
        noise=float(noise),
        seed=seed,
    )


def sparse(
    features: int, nonzeros: int, strength: float
) -> Callable[[np.random.Generator], np.ndarray]:
    """Draws +- strength at `nonzeros` random places and zero elsewhere."""
    demand(
        0 <= nonzeros <= features,
        f"nonzeros must be between 0 and the {features} features, got {nonzeros}; lower it.",
    )

    def truth(rng):
        return (rng.permutation(features) < nonzeros) * rng.choice([-strength, strength], features)

    return truth


def plus_noise(
    noise: float,
) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """Answers with the score and a normal error of the given standard deviation."""
    demand(
        0 <= noise < np.inf,
        f"noise must be non-negative and finite, got {noise}; 0 makes answers exact.",
    )
    return lambda rng, scores: scores + noise * rng.standard_normal(scores.shape)
