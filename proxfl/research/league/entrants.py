"""Who takes part, and the grid each is tuned on.

Steps are in units of 1/L of the mean loss, so that a tuned value carries over to another draw.
Every grid has the same number of points.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from proxfl import algorithms
from proxfl.core import Algorithm

Axis = tuple[str, tuple[float, ...]]
BUDGET = 24

# eta_round L from a cautious step to one beyond what a gradient method bears.
LONG: Axis = ("eta_round L", tuple(np.geomspace(0.025, 3.2, 8)))
FINE: Axis = ("eta_round L", tuple(np.geomspace(0.025, 3.2, BUDGET)))
SERVER: Axis = ("eta_g", (1.0, 4.0, 16.0))
GAMMA: Axis = ("gamma L", tuple(np.geomspace(0.05, 50.0, 8)))
INNER: Axis = ("eta L_max", (0.3, 0.6, 1.2))


def mesh(axes: Iterable[Axis]) -> list[dict[str, float]]:
    """All points of the grid with these axes."""
    names, values = zip(*axes, strict=True)
    return [
        dict(zip(names, map(float, point), strict=True)) for point in itertools.product(*values)
    ]


class Entrant(NamedTuple):
    """A method, and how its algorithm is made from a grid point."""

    name: str
    grid: tuple[Axis, ...]
    make: Callable[..., Algorithm]  # (point, L, L_max, tau) -> algorithm

    def at_edge(self, point: dict[str, float]) -> list[str]:
        """The parameters whose tuned value is the first or last of its axis."""
        return [name for name, axis in self.grid if point[name] in (axis[0], axis[-1])]


def one_step(name: str, method: Any, *options: Any) -> Entrant:
    """Methods of one step, eta_round."""
    return Entrant(name, (FINE,), lambda p, L, M, tau: method(p["eta_round L"] / L, *options))


def stepped(name: str, method: Any, **options: Any) -> Entrant:
    """Methods with eta, eta_g and tau: the grid gives their product and eta_g."""

    def make(p, L, M, tau):
        eta = p["eta_round L"] / (L * p["eta_g"] * tau)
        return method(eta, p["eta_g"], tau, **options)

    return Entrant(name, (LONG, SERVER), make)


def split(name: str, method: Any, **options: Any) -> Entrant:
    """Methods that solve a local problem of curvature L_i + 1/gamma by tau gradient steps."""

    def make(p, L, M, tau):
        gamma = p["gamma L"] / L
        return method(gamma, p["eta L_max"] / (M + 1 / gamma), tau, **options)

    return Entrant(name, (GAMMA, INNER), make)


def accelerated(name: str, how: str, steps: int | None = None) -> Entrant:
    def make(p, L, M, tau):
        local = steps or tau
        eta = p["eta_round L"] / (L * 4.0 * local)
        return algorithms.Accelerated(algorithms.Decoupled(eta, 4.0, local), 10, how)

    return Entrant(name, (FINE,), make)


FIELD = (
    stepped("Algorithm 1", algorithms.Decoupled),
    accelerated("Algorithm 1, Anderson", "anderson"),
    accelerated("Algorithm 1, Anderson, tau = 1", "anderson", 1),
    accelerated("Algorithm 1, Nesterov", "nesterov"),
    stepped(
        "Algorithm 1, top 5",
        lambda *steps: algorithms.Compressed(algorithms.Decoupled(*steps), algorithms.TopK(5)),
    ),
    one_step("proximal gradient", algorithms.ProximalGradient),
    one_step("adaptive proximal gradient", algorithms.Adaptive),
    Entrant(
        "ProxSkip",
        (("eta L_max", tuple(np.geomspace(0.01, 4.0, BUDGET))),),
        lambda p, L, M, tau: algorithms.ProxSkip(p["eta L_max"] / M, tau),
    ),
    split("FedDR", algorithms.FedDR, alpha=1.5),
    split("FedADMM", algorithms.FedADMM),
    split("FedSplit", algorithms.FedSplit),
    stepped("Mime + local prox", algorithms.Mime, client_prox="every step"),
    stepped("FedDA", algorithms.FedDA),
    stepped("FedMid", algorithms.FedMid),
    Entrant(
        "Fast-FedDA",
        (("mu / L", (1e-3, 1e-2, 1e-1)), ("gamma / L", tuple(np.geomspace(0.3, 30, 8)))),
        lambda p, L, M, tau: algorithms.FastFedDA(p["mu / L"] * L, p["gamma / L"] * L, tau, "no"),
    ),
    split("FedMSPP", algorithms.FedMSPP),
    one_step("DP-SPIDER without noise", algorithms.DPSpider, 1e6, 1e6, 0.0),
    stepped("coupled (naive)", algorithms.Coupled),
    stepped("FedAvg", algorithms.FedAvg),
    Entrant(
        "FedProx",
        (LONG, ("mu / L", (0.01, 0.1, 1.0))),
        lambda p, L, M, tau: algorithms.FedProx(
            p["eta_round L"] / (L * tau), 1.0, tau, p["mu / L"] * L
        ),
    ),
    stepped("Scaffold", algorithms.Scaffold),
    stepped("MimeLite", algorithms.MimeLite),
    split("FedPD", algorithms.FedPD),
)
ENTRANTS = {entrant.name: entrant for entrant in FIELD}
