"""The one list of algorithms. Adding a case here buys every law that is stated over the list."""

from typing import NamedTuple

import jax
import numpy as np

import proxfl as px
from proxfl.core import Algorithm, expand
from proxfl.losses import Logistic, Squared
from proxfl.prox import L1
from tests import literal


class Case(NamedTuple):
    """A method with steps that suit `problem()`, and its slow twin in NumPy."""

    algorithm: Algorithm
    literal: literal.Method
    exact: bool  # keeps every stationary point of f + g where it is, for all n and tau
    name: str


D = 6
ETA, ETA_G, TAU = 0.05, 1.5, 4


def case(algorithm, twin, exact, name=None):
    return Case(algorithm, twin, exact, name or type(algorithm).__name__)


algorithms = [
    case(px.Decoupled(ETA, ETA_G, TAU), literal.decoupled(ETA, ETA_G, TAU), True),
    case(px.Decoupled(ETA, ETA_G, 1), literal.decoupled(ETA, ETA_G, 1), True, "Decoupled-tau1"),
    case(
        px.Decoupled(ETA, ETA_G, TAU, "constant"),
        literal.decoupled(ETA, ETA_G, TAU, inner=lambda t: ETA),
        False,
        "Decoupled-constant",
    ),
    case(
        px.Decoupled(ETA, ETA_G, TAU, "none"),
        literal.decoupled(ETA, ETA_G, TAU, inner=lambda t: 0.0),
        False,
        "Decoupled-none",
    ),
    case(px.AsPrinted(ETA, ETA_G, TAU), literal.decoupled(ETA, ETA_G, TAU), True),
    case(px.DecoupledPartial(ETA, ETA_G, TAU), literal.decoupled(ETA, ETA_G, TAU), True),
    case(px.Coupled(ETA, ETA_G, TAU), literal.coupled(ETA, ETA_G, TAU), False),
    case(px.FedAvg(ETA, ETA_G, TAU), literal.fedavg(ETA, ETA_G, TAU), False),
    case(px.FedMid(ETA, ETA_G, TAU), literal.fedmid(ETA, ETA_G, TAU, ETA, ETA * TAU), False),
    case(
        px.FedMid(ETA, ETA_G, TAU, "eta"),
        literal.fedmid(ETA, ETA_G, TAU, ETA, ETA),
        False,
        "FedMid-eta",
    ),
    case(
        px.FedMid(ETA, ETA_G, TAU, "none"),
        literal.fedmid(ETA, ETA_G, TAU, ETA, 0.0),
        False,
        "FedMid-no-server-prox",
    ),
    case(
        px.FedMid(ETA, ETA_G, TAU, "full", "none"),
        literal.fedmid(ETA, ETA_G, TAU, 0.0, ETA * TAU),
        False,
        "FedMid-no-client-prox",
    ),
    case(px.FedDA(ETA, ETA_G, TAU), literal.fedda(ETA, ETA_G, TAU), False),
    case(px.FastFedDA(0.1, 8.0, TAU), literal.fast_fedda(0.1, 8.0, TAU, True), False),
    case(
        px.FastFedDA(0.1, 8.0, TAU, "no"),
        literal.fast_fedda(0.1, 8.0, TAU, False),
        False,
        "FastFedDA-single-count",
    ),
    case(px.ProximalGradient(0.3), literal.proximal_gradient(0.3), True),
    case(px.Adaptive(ETA), literal.adaptive(ETA), True),
    case(px.FedProx(ETA, ETA_G, TAU, 0.7), literal.fedprox(ETA, ETA_G, TAU, 0.7), False),
    case(px.FedMSPP(0.8, ETA, TAU), literal.fedmspp(0.8, ETA, TAU), False),
    case(
        px.Scaffold(ETA, ETA_G, TAU, "I"),
        literal.scaffold_one(ETA, ETA_G, TAU),
        False,
        "Scaffold-I",
    ),
    case(px.Scaffold(ETA, ETA_G, TAU), literal.scaffold_two(ETA, ETA_G, TAU), False, "Scaffold-II"),
    case(
        px.Mime(ETA, ETA_G, TAU, 0.4),
        literal.mime(ETA, ETA_G, TAU, 0.4, local_prox=False),
        False,
        "Mime-momentum",
    ),
    case(
        px.Mime(ETA, 1.0, TAU, 0.4, "every step"),
        literal.mime(ETA, 1.0, TAU, 0.4, local_prox=True),
        True,
        "Mime-prox-momentum",
    ),
    case(
        px.MimeLite(ETA, ETA_G, TAU, 0.4),
        literal.mime(ETA, ETA_G, TAU, 0.4, local_prox=False, lite=True),
        False,
    ),
    case(px.FedSplit(0.4, ETA, TAU), literal.fedsplit(0.4, ETA, TAU), True),
    case(px.FedPD(0.4, ETA, TAU), literal.fedpd(0.4, ETA, TAU, [1] * 12), False),
    case(px.FedDR(0.4, ETA, TAU, 1.5), literal.feddr(0.4, ETA, TAU, 1.5), True),
    case(px.FedADMM(0.4, ETA, TAU), literal.fedadmm(0.4, ETA, TAU), True),
    case(px.ProxSkip(ETA, TAU), literal.proxskip(ETA, TAU, [TAU] * 12), True),
    case(
        px.DPSpider(0.3, 1e9, 1e9, 0.0, 5),
        literal.dp_spider(0.3, 1e9, 1e9, 5),
        True,
        "DPSpider-without-noise",
    ),
    case(
        px.DPSpider(0.3, 0.2, 0.05, 0.0, 5),
        literal.dp_spider(0.3, 0.2, 0.05, 5),
        False,
        "DPSpider-clipped",
    ),
    case(
        px.Accelerated(px.Decoupled(ETA, ETA_G, TAU), 3),
        literal.accelerated(ETA, ETA_G, TAU, 3, "anderson"),
        True,
        "Accelerated-anderson",
    ),
    case(
        px.Accelerated(px.Decoupled(ETA, ETA_G, TAU), 3, "nesterov"),
        literal.accelerated(ETA, ETA_G, TAU, 3, "nesterov"),
        True,
        "Accelerated-nesterov",
    ),
    case(
        px.AcceleratedPartial(px.DecoupledPartial(ETA, ETA_G, TAU), 3),
        literal.accelerated(ETA, ETA_G, TAU, 3, "anderson"),
        True,
        "AcceleratedPartial",
    ),
    case(
        px.Private(px.Decoupled(ETA, ETA_G, TAU), 1e9, 0.0),
        literal.decoupled(ETA, ETA_G, TAU),
        True,
        "Private-Decoupled-unlimited",
    ),
    case(
        px.Compressed(px.DecoupledPartial(ETA, ETA_G, TAU), px.TopK(2)),
        literal.compressed_decoupled(ETA, ETA_G, TAU, 2),
        True,
        "Compressed-DecoupledPartial",
    ),
]


def sites(clients=5, rows=(7, 12, 9, 7, 10), seed=0, labels=True):
    """Clients of unequal size whose optima differ."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(clients):
        m = rows[i % len(rows)]
        a = rng.normal(size=(m, D)) + rng.normal(size=D)
        z = a @ rng.normal(size=D) + 0.1 * rng.normal(size=m)
        made.append((a, np.sign(z) if labels else z))
    return made


def problem(theta=0.05, batch=None):
    """Sparse logistic regression."""
    return px.Problem(g=L1(theta), x0=np.zeros(D), loss=Logistic(), batch=batch)


def least_squares(theta=0.05):
    """A strongly convex problem: l1 least squares with more rows than columns."""
    return px.Problem(g=L1(theta), x0=np.zeros(D), loss=Squared())


def received(ups, weights, key):
    """What a server gets, by the definition: the weighted mean of uplinks, and their weight."""
    share, ups = sum(weights), [expand(up) for up in ups]
    add = lambda *parts: sum(w * part for w, part in zip(weights, parts, strict=True)) / share
    return px.Received(jax.tree.map(add, *ups), share, key)
