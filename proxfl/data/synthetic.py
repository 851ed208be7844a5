"""synthetic(alpha, beta) of FedProx (Li et al. 2020), for labels -1 and +1.

Client k draws u_k ~ N(0, alpha) and B_k ~ N(0, beta), then

    v_k[j] ~ N(B_k, 1),   a ~ N(v_k, diag(j^-1.2)),   W_k, b_k ~ N(u_k, 1),

and labels its rows by its own model. With `argmax`, the rule of FedProx for two classes, u_k adds
the same number to both scores, so alpha has no effect on any label; with `sign` there is one score,
y = sign(w_k' a + b_k), and it has. At beta = 50 nearly every client sees one label only.

All clients' draws of one kind come in one block, in the order u, B, v, a, W, b. The setting

    synthetic(50, 50, scaling=Scaling("unit", smoothness=0.01), seed=0)

lets the paper's own step sizes converge, to a solution that is not zero; the paper does not say
how it scaled, and other seeds may need a smaller penalty (see `gradient_at_zero` in the recipe).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from proxfl.data.federated import (
    AT_LEAST_ONE,
    FederatedData,
    Site,
    curvatures,
    demand,
    must,
    one_of,
)
from proxfl.data.partition import per_client
from proxfl.losses import Logistic
from proxfl.pytree import NON_NEGATIVE, POSITIVE, Condition, choice, keep_rules, leaf

FACTOR = Condition(POSITIVE.words, lambda v: v.item() is None or POSITIVE.holds(v))


@dataclasses.dataclass(frozen=True)
class Scaling:
    """An explicit choice, since step sizes mean nothing without it.

    Rows as drawn (`raw`) or of length one (`unit`), then one common factor, given or found.

    `smoothness` asks for the factor that makes curvature * lambda_max of the mean over clients of
    A_i' A_i / m_i equal to it, with the curvature 1/4 of the logistic loss.
    """

    __post_init__ = keep_rules

    rows: str = choice("unit", default="raw")
    factor: float | None = leaf(default=None, rule=FACTOR)
    smoothness: float | None = leaf(default=None, rule=FACTOR)


RAW = Scaling()


def rescale(sites: Sequence[Site], scaling: Scaling) -> tuple[list[Site], float]:
    """The scaled sites and the common factor that was used."""
    demand(
        scaling.factor is None or scaling.smoothness is None,
        f"scaling has factor={scaling.factor} and smoothness={scaling.smoothness}; give only one.",
    )
    based = sites if scaling.rows == "raw" else [(unit_rows(A), y) for A, y in sites]
    factor = 1.0 if scaling.factor is None else float(scaling.factor)
    if scaling.smoothness is not None:
        bound = Logistic.curvature * curvatures(based)["lambda_max"]
        factor = math.sqrt(scaling.smoothness / bound)
    return [(factor * A, y) for A, y in based], factor


def unit_rows(A: np.ndarray) -> np.ndarray:
    """Every row divided by its length; a row of zeros stays as it is."""
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return A / np.where(lengths > 0, lengths, 1.0)


def synthetic(
    alpha: float,
    beta: float,
    *,
    clients: int = 30,
    rows: int | Sequence[int] = 100,
    features: int = 20,
    labels: str = "argmax",
    spread: str = "std",
    scaling: Scaling = RAW,
    seed: int,
) -> FederatedData:
    """Clients with their own features and their own labelling models; there is no common truth.

    `labels` is the rule, `argmax` or `sign`. Papers write N(0, alpha): `spread` says whether alpha
    and beta are standard deviations (`std`, as in the authors' code) or variances (`variance`).
    """
    sizes = per_client(rows, clients)
    must("features", features, AT_LEAST_ONE)
    must("alpha", alpha, NON_NEGATIVE)
    must("beta", beta, NON_NEGATIVE)
    must("labels", labels, one_of("argmax", "sign"))
    must("spread", spread, one_of("std", "variance"))
    stds = (alpha, beta) if spread == "std" else (alpha**0.5, beta**0.5)
    classes = 2 if labels == "argmax" else 1
    sites, factor = rescale(
        draw(np.random.default_rng(seed), sizes, features, classes, stds), scaling
    )
    choices = {
        "alpha": float(alpha),
        "beta": float(beta),
        "clients": int(clients),
        "rows": np.asarray(rows).tolist(),
        "features": int(features),
        "labels": labels,
        "spread": spread,
        "scaling": dataclasses.asdict(scaling),
        "seed": int(seed),
    }
    found = curvatures(sites)
    facts = {
        "factor": factor,
        "smoothness": Logistic.curvature * found["lambda_max"],
        "client_smoothness": Logistic.curvature * found["client_lambda_max"],
        "gradient_at_zero": gradient_at_zero(sites),
        "clients_with_one_label": sum(len(np.unique(y)) == 1 for _, y in sites),
    }
    return FederatedData(
        sites, None, {"generator": "synthetic", "choices": choices, "facts": facts}
    )


def draw(
    rng: np.random.Generator,
    sizes: np.ndarray,
    features: int,
    classes: int,
    stds: tuple[float, float],
) -> list[Site]:
    """Unscaled rows and labels, one site per client."""
    clients = len(sizes)
    u, B = (std * rng.standard_normal(clients) for std in stds)
    v = B[:, None] + rng.standard_normal((clients, features))
    scatter = np.arange(1, features + 1) ** -0.6  # square root of the variance j^-1.2
    noise = np.split(rng.standard_normal((sizes.sum(), features)), np.cumsum(sizes)[:-1])
    W = u[:, None, None] + rng.standard_normal((clients, features, classes))
    b = u[:, None] + rng.standard_normal((clients, classes))
    rows = [v_k + scatter * e for v_k, e in zip(v, noise, strict=True)]
    return [(A, sign(A @ W_k + b_k)) for A, W_k, b_k in zip(rows, W, b, strict=True)]


def sign(scores: np.ndarray) -> np.ndarray:
    """+1 where the last of two scores is larger, or where the only one is positive; else -1."""
    first = scores[:, 0] if scores.shape[1] == 2 else 0.0
    return np.where(scores[:, -1] > first, 1.0, -1.0)


def gradient_at_zero(sites: list[Site]) -> float:
    """Largest entry of the mean logistic gradient; an l1 penalty above it makes zero optimal."""
    return float(np.abs(np.mean([A.T @ y / len(y) for A, y in sites], axis=0)).max() / 2)
