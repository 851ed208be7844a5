"""Who takes part, and the grid each is tuned on.

Steps are in units of 1/L of the mean loss, so that a tuned value carries over to another draw.
First grids have about the same number of points; tuning extends them where the best is at an edge.

Methods that are others under another name enter once: FedADMM and FedSplit are FedDR at alpha = 1
and 2, FedExProx with a constant extrapolation is FedProx with eta_g > 1, MimeLite without momentum
is FedAvg, and noiseless DP-SPIDER is proximal gradient.
"""

import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from proxfl import algorithms
from proxfl.algorithms import AcceleratedPartial, Compressed, DecoupledPartial
from proxfl.core import Algorithm
from proxfl.train.drivers.newton import Newton
from proxfl.train.drivers.working_set import NewtonOnSets
from proxfl.train.method import MOST

BUDGET = 24


class Axis(NamedTuple):
    """Values of a parameter, each the same multiple of the last, or a few fixed `choices`."""

    name: str
    values: tuple[float, ...]
    choices: bool = False


# eta_round L from a cautious step to one beyond what a gradient method bears.
LONG = Axis("eta_round L", tuple(np.geomspace(0.2, 25.6, 8)))
FINE = Axis("eta_round L", tuple(np.geomspace(0.025, 3.2, BUDGET)))
SERVER = Axis("eta_g", (1.0, 4.0, 16.0))
GAMMA = Axis("gamma L", (0.1, 1.0, 10.0, 100.0))
INNER = Axis("eta L_max", (0.5, 1.0))
RELAXED = Axis("alpha", (1.0, 1.5, 2.0), choices=True)


def mesh(axes: Iterable[Axis]) -> list[dict[str, float]]:
    """All points of the grid with these axes."""
    names, values = zip(*((axis[0], axis[1]) for axis in axes), strict=True)
    return [
        dict(zip(names, map(float, point), strict=True)) for point in itertools.product(*values)
    ]


class Unit(NamedTuple):
    """What an entrant's steps are measured by, and what the league asks of it."""

    L: float  # of the mean loss
    L_max: float  # of the most curved client
    tau: int
    d: int
    partial: bool = False  # whether clients sit rounds out


class Entrant(NamedTuple):
    """A method, and how its algorithm is made from a grid point."""

    name: str
    grid: tuple[Axis, ...]
    make: Callable[[dict[str, float], Unit], Algorithm]
    uses_g: bool = True


class Driven(NamedTuple):
    """A method that decides for itself when to talk and how far to go; see `driven.py`."""

    name: str
    driver: Callable[..., Any]
    sizes: range  # of models it is meant for
    alone: bool = False  # whether it needs a penalty that is a sum over coefficients


def one_step(name: str, method: Any, *options: Any) -> Entrant:
    """Methods of one step, eta_round."""
    return Entrant(name, (FINE,), lambda p, u: method(p["eta_round L"] / u.L, *options))


def steps_of(p: dict[str, float], u: Unit) -> tuple[float, float, int]:
    """eta, eta_g and tau: the grid gives the product of all three, and eta_g."""
    return p["eta_round L"] / (u.L * p["eta_g"] * u.tau), p["eta_g"], u.tau


def stepped(name: str, method: Any, uses_g: bool = True, **options: Any) -> Entrant:
    """Methods with eta, eta_g and tau."""
    make = lambda p, u: method(*steps_of(p, u), **options)
    return Entrant(name, (LONG, SERVER), make, uses_g)


def ours(name: str, wrap: Callable[[Any], Any] = lambda a: a, partial: Any = None) -> Entrant:
    """Algorithm 1, wrapped; where clients sit out, in its form with server memory."""

    def make(p, u):
        if u.partial:
            return (partial or wrap)(DecoupledPartial(*steps_of(p, u)))
        return wrap(algorithms.Decoupled(*steps_of(p, u)))

    return Entrant(name, (LONG, SERVER), make)


def gradient(name: str, how: str) -> Entrant:
    """Algorithm 1 at tau = 1 is proximal gradient; accelerated, with either kind of mixing."""

    def make(p, u):
        step = p["eta_round L"] / u.L
        return algorithms.Accelerated(algorithms.Decoupled(step, 1.0, 1), 10, how)

    return Entrant(name, (FINE,), make)


def split(name: str, wrap: Callable[[Any, Unit], Any] = lambda a, u: a) -> Entrant:
    """FedDR solves a local problem of curvature L_i + 1/gamma by tau gradient steps."""

    def make(p, u):
        gamma = p["gamma L"] / u.L
        inner = p["eta L_max"] / (u.L_max + 1 / gamma)
        return wrap(algorithms.FedDR(gamma, inner, u.tau, p["alpha"]), u)

    return Entrant(name, (GAMMA, INNER, RELAXED), make)


def skipping(name: str, wrap: Callable[[Any], Any] = lambda a: a, steps: str = "fixed") -> Entrant:
    grid = (Axis("eta L_max", tuple(np.geomspace(0.01, 4.0, BUDGET))),)
    make = lambda p, u: wrap(algorithms.ProxSkip(p["eta L_max"] / u.L_max, u.tau, steps))
    return Entrant(name, grid, make)


def few(u: Unit) -> Any:
    return algorithms.TopK(max(1, u.d // 4))


def anderson(inner: Any) -> Any:
    return AcceleratedPartial(inner, 10, "anderson")


MIME: Any = {"client_prox": "every step"}
FIELD = (
    ours("Algorithm 1"),
    ours("Algorithm 1, Anderson", lambda a: algorithms.Accelerated(a, 10, "anderson"), anderson),
    ours(
        "Algorithm 1, Nesterov",
        lambda a: algorithms.Accelerated(a, 10, "nesterov"),
        lambda a: AcceleratedPartial(a, 10, "nesterov"),
    ),
    Entrant(
        "Algorithm 1, top d/4 (EF21)",
        (LONG, SERVER),
        lambda p, u: Compressed(DecoupledPartial(*steps_of(p, u)), few(u)),
    ),
    Entrant(
        "Algorithm 1, 4 bits (EF21)",
        (LONG, SERVER),
        lambda p, u: Compressed(DecoupledPartial(*steps_of(p, u)), algorithms.Quantised(4)),
    ),
    one_step("proximal gradient", algorithms.ProximalGradient),
    gradient("accelerated proximal gradient, Anderson", "anderson"),
    gradient("accelerated proximal gradient, Nesterov", "nesterov"),
    one_step("adaptive proximal gradient", algorithms.Adaptive),
    skipping("ProxSkip"),
    skipping("ProxSkip, random steps", steps="geometric"),
    skipping("ProxSkip, Anderson", anderson),
    split("FedDR (FedADMM, FedSplit)"),
    split("FedDR, top d/4 (EF21)", lambda a, u: Compressed(a, few(u))),
    stepped("Mime + local prox", algorithms.Mime, **MIME),
    Entrant(
        "Mime + local prox, Anderson",
        (LONG, SERVER),
        lambda p, u: anderson(algorithms.Mime(*steps_of(p, u), **MIME)),
    ),
    stepped("FedDA", algorithms.FedDA),
    stepped("FedMid", algorithms.FedMid),
    Entrant(
        "Fast-FedDA, corrected",
        (
            Axis("mu / L", (1e-3, 1e-2, 1e-1)),
            Axis("gamma / L", tuple(np.geomspace(0.1, 12.8, 8))),
        ),
        lambda p, u: algorithms.FastFedDA(p["mu / L"] * u.L, p["gamma / L"] * u.L, u.tau, "no"),
    ),
    Entrant(
        "FedMSPP",
        (Axis("gamma L", tuple(np.geomspace(1e-3, 10, 12))), INNER),
        lambda p, u: algorithms.FedMSPP(
            p["gamma L"] / u.L, p["eta L_max"] / (u.L_max + u.L / p["gamma L"]), u.tau
        ),
    ),
    # Without g: these enter only where there is none.
    stepped("FedAvg", algorithms.FedAvg, uses_g=False),
    Entrant(
        "FedProx (FedExProx)",
        (LONG, SERVER, Axis("mu / L", (0.1, 1.0))),
        lambda p, u: algorithms.FedProx(*steps_of(p, u), p["mu / L"] * u.L),
        uses_g=False,
    ),
    stepped("Scaffold", algorithms.Scaffold, uses_g=False),
    Entrant(
        "MimeLite, momentum 0.9",
        (LONG, SERVER),
        lambda p, u: algorithms.MimeLite(*steps_of(p, u), 0.9),
        uses_g=False,
    ),
)
DRIVEN = (
    Driven("proximal Newton", Newton, range(MOST + 1)),
    Driven("proximal Newton on sets", NewtonOnSets, range(MOST + 1, sys.maxsize), alone=True),
)
ENTRANTS: dict[str, Entrant | Driven] = {entrant.name: entrant for entrant in (*FIELD, *DRIVEN)}
