"""Who holds how many rows of which features, and how far apart the clients are.

Client i draws its rows from N(mu_i, C) and answers with coefficients w_i, where

    mu_i = feature_shift * (a standard normal, less its mean over clients),
    w_i  = truth + coef_shift * (likewise),

so the dials move the clients apart and leave their plain mean in place: at zero all clients are
alike, and a single client always is. Truth, means, coefficients, rows and answers come from five
separate streams of the seed: turning one dial leaves every other draw as it was.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from proxfl.data.federated import FederatedData, curvatures, must
from proxfl.data.partition import per_client
from proxfl.pytree import Condition, count, keep_rules, leaf, non_negative

FINITE = Condition("finite", lambda v: bool(np.isfinite(v)))
CORRELATION = Condition("strictly between -1 and 1", lambda v: bool(-1 < v < 1))
CONDITION = Condition("at least 1 and finite", lambda v: v.item() is None or bool(1 <= v < np.inf))


@dataclasses.dataclass(frozen=True)
class Design:
    """The dials that all generators with a known truth share.

    Features i and j correlate by correlation^|i - j|. With `condition`, their covariance keeps its
    eigenvectors, and its eigenvalues fall evenly on a log scale from 1 to 1 / condition.
    """

    __post_init__ = keep_rules

    clients: int = count(default=10)
    rows: int | Sequence[int] = 60
    features: int = count(default=20)
    correlation: float = leaf(default=0.5, rule=CORRELATION)
    condition: float | None = leaf(default=None, rule=CONDITION)
    feature_shift: float = non_negative(default=0.0)
    coef_shift: float = non_negative(default=0.0)


STANDARD = Design()


def federate(
    name: str,
    design: Design,
    truth: Callable[[np.random.Generator], np.ndarray],
    answer: Callable[[np.random.Generator, np.ndarray], np.ndarray],
    choices: dict[str, Any],
    seed: int,
) -> FederatedData:
    """Draw the truth, every client's rows, and the answers to their scores A_i w_i."""
    must("strength", choices["strength"], FINITE)
    sizes = per_client(design.rows, design.clients)
    cuts = np.cumsum(sizes)[:-1]
    of_truth, of_means, of_coefs, of_rows, of_answers = np.random.default_rng(seed).spawn(5)
    w = truth(of_truth)
    means = design.feature_shift * apart(of_means, design.clients, (design.features,))
    coefs = w + design.coef_shift * apart(of_coefs, design.clients, w.shape)
    body = correlated(design, of_rows.standard_normal((sizes.sum(), design.features)))
    features = [m + A for m, A in zip(means, np.split(body, cuts), strict=True)]
    scores = [A @ c for A, c in zip(features, coefs, strict=True)]
    answers = np.split(answer(of_answers, np.concatenate(scores)), cuts)
    sites = list(zip(features, answers, strict=True))
    shared = dataclasses.asdict(design) | {"rows": np.asarray(design.rows).tolist()}
    recipe = {
        "generator": name,
        "choices": {"design": shared, **choices, "seed": int(seed)},
        "facts": curvatures(sites),
    }
    return FederatedData(sites, w, recipe)


def apart(rng: np.random.Generator, clients: int, shape: tuple[int, ...]) -> np.ndarray:
    """One standard normal array per client, less their mean."""
    drawn = rng.standard_normal((clients, *shape))
    return drawn - drawn.mean(axis=0)


def correlated(design: Design, rows: np.ndarray) -> np.ndarray:
    """Rows of the design's covariance, of standard normal ones."""
    if design.correlation == 0 and design.condition is None:
        return rows  # a root takes the cube of the features, minutes from some thousands on
    return rows @ root(covariance(design))


def covariance(design: Design) -> np.ndarray:
    """Of the features of any one client."""
    j = np.arange(design.features)
    matrix = design.correlation ** np.abs(j[:, None] - j[None, :])
    if design.condition is None:
        return matrix
    _, vectors = np.linalg.eigh(matrix)
    values = np.geomspace(1 / design.condition, 1.0, design.features)
    return (vectors * values) @ vectors.T


def root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
