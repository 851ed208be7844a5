"""Who takes part, and the grid each is tuned on.

Steps are in units of 1/L of the mean loss, so that a tuned value carries over to another draw.
Every grid has the same number of points.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from proxfl.algorithms import (
    Adaptive,
    Compressed,
    Coupled,
    Decoupled,
    DPSpider,
    FastFedDA,
    FedADMM,
    FedAvg,
    FedDA,
    FedDR,
    FedMid,
    FedMSPP,
    FedPD,
    FedProx,
    FedSplit,
    Mime,
    MimeLite,
    ProximalGradient,
    ProxSkip,
    Scaffold,
    TopK,
)
from proxfl.algorithms.wrappers.accelerated import Accelerated
from proxfl.core import Algorithm

Axis = tuple[str, tuple[float, ...]]
BUDGET = 24

# eta_round L from a cautious step to one beyond what a gradient method bears.
LONG: Axis = ("eta_round L", tuple(np.geomspace(0.025, 3.2, 8)))
FINE: Axis = ("eta_round L", tuple(np.geomspace(0.025, 3.2, BUDGET)))
SERVER: Axis = ("eta_g", (1.0, 4.0, 16.0))
GAMMA: Axis = ("gamma L", tuple(np.geomspace(0.05, 50.0, 8)))
INNER: Axis = ("eta L_max", (0.3, 0.6, 1.2))


class Entrant(NamedTuple):
    """A method: how its algorithm is made from a grid point, and whether it knows of g."""

    name: str
    grid: tuple[Axis, ...]
    make: Callable[..., Algorithm]  # (point, L, L_max, tau) -> algorithm
    composite: bool

    def points(self) -> Iterator[dict[str, float]]:
        """All points of the grid."""
        names = [name for name, _ in self.grid]
        for values in np.stack(
            np.meshgrid(*(axis for _, axis in self.grid), indexing="ij"), axis=-1
        ).reshape(-1, len(names)):
            yield dict(zip(names, values.tolist(), strict=True))

    def at_edge(self, point: dict[str, float]) -> list[str]:
        """The parameters whose tuned value is the first or last of its axis."""
        return [name for name, axis in self.grid if point[name] in (axis[0], axis[-1])]


def stepped(method: Any, **options: Any) -> Callable[..., Algorithm]:
    """Methods with eta, eta_g and tau: the grid gives their product and eta_g."""

    def make(p, L, L_max, tau):
        eta = p["eta_round L"] / (L * p["eta_g"] * tau)
        return method(eta, p["eta_g"], tau, **options)

    return make


def split(method: Any, **options: Any) -> Callable[..., Algorithm]:
    """Methods that solve a local problem of curvature L_i + 1/gamma by tau gradient steps."""

    def make(p, L, L_max, tau):
        gamma = p["gamma L"] / L
        return method(gamma, p["eta L_max"] / (L_max + 1 / gamma), tau, **options)

    return make


def accelerated(how: str, steps: int | None):
    def make(p, L, L_max, tau):
        local = steps or tau
        eta = p["eta_round L"] / (L * 4.0 * local)
        return Accelerated(Decoupled(eta, 4.0, local), 10, how)

    return make


ENTRANTS: dict[str, Entrant] = {
    entrant.name: entrant
    for entrant in (
        Entrant("Algorithm 1", (LONG, SERVER), stepped(Decoupled), True),
        Entrant("Algorithm 1, Anderson", (FINE,), accelerated("anderson", None), True),
        Entrant("Algorithm 1, Anderson, tau = 1", (FINE,), accelerated("anderson", 1), True),
        Entrant("Algorithm 1, Nesterov", (FINE,), accelerated("nesterov", None), True),
        Entrant(
            "Algorithm 1, top 5",
            (LONG, SERVER),
            lambda p, L, M, tau: Compressed(stepped(Decoupled)(p, L, M, tau), TopK(5)),
            True,
        ),
        Entrant(
            "proximal gradient",
            (FINE,),
            lambda p, L, M, tau: ProximalGradient(p["eta_round L"] / L),
            True,
        ),
        Entrant(
            "adaptive proximal gradient",
            (FINE,),
            lambda p, L, M, tau: Adaptive(p["eta_round L"] / L),
            True,
        ),
        Entrant(
            "ProxSkip",
            (("eta L_max", tuple(np.geomspace(0.01, 4.0, BUDGET))),),
            lambda p, L, M, tau: ProxSkip(p["eta L_max"] / M, tau),
            True,
        ),
        Entrant("FedDR", (GAMMA, INNER), split(FedDR, alpha=1.5), True),
        Entrant("FedADMM", (GAMMA, INNER), split(FedADMM), True),
        Entrant("FedSplit", (GAMMA, INNER), split(FedSplit), True),
        Entrant("Mime + local prox", (LONG, SERVER), stepped(Mime, client_prox="every step"), True),
        Entrant("FedDA", (LONG, SERVER), stepped(FedDA), True),
        Entrant("FedMid", (LONG, SERVER), stepped(FedMid), True),
        Entrant(
            "Fast-FedDA",
            (("mu / L", (1e-3, 1e-2, 1e-1)), ("gamma / L", tuple(np.geomspace(0.3, 30, 8)))),
            lambda p, L, M, tau: FastFedDA(p["mu / L"] * L, p["gamma / L"] * L, tau, "no"),
            True,
        ),
        Entrant("FedMSPP", (GAMMA, INNER), split(FedMSPP), True),
        Entrant(
            "DP-SPIDER without noise",
            (FINE,),
            lambda p, L, M, tau: DPSpider(p["eta_round L"] / L, 1e6, 1e6, 0.0),
            True,
        ),
        Entrant("coupled (naive)", (LONG, SERVER), stepped(Coupled), True),
        Entrant("FedAvg", (LONG, SERVER), stepped(FedAvg), False),
        Entrant(
            "FedProx",
            (LONG, ("mu / L", (0.01, 0.1, 1.0))),
            lambda p, L, M, tau: FedProx(p["eta_round L"] / (L * tau), 1.0, tau, p["mu / L"] * L),
            False,
        ),
        Entrant("Scaffold", (LONG, SERVER), stepped(Scaffold), False),
        Entrant("MimeLite", (LONG, SERVER), stepped(MimeLite), False),
        Entrant("FedPD", (GAMMA, INNER), split(FedPD), False),
    )
}
