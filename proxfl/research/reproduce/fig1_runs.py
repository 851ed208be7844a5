"""The runs of Figure 1, of which `fig1.py` has the figures and the claims."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from proxfl.algorithms import Decoupled, FastFedDA, FedDA, FedMid
from proxfl.core import Algorithm
from proxfl.data import Scaling, synthetic
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import Observer
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1
from proxfl.pytree import pytree, static
from proxfl.research.runs import Trial, best_variant, final, traces

THETA = 0.003
GRID = (0.002, 0.003, 0.005, 0.01, 0.02, 0.05)
ROUNDS = {1: 20_000, 10: 2_000}
SEEN = 4000  # observations of a run, at most one a round
LEVELS = (1e-2, 1e-3, 1e-4)  # whose first rounds are kept as finely as they were observed
DRAWS, D = 20, 20
METHODS = ("Algorithm 1", "FedDA", "FedMid", "Fast-FedDA", "Fast-FedDA, corrected")
FAST = METHODS[3:]
MUS = (1e-2, 1e-3, 1e-4)  # Fast-FedDA's mu as a multiple of L: the best of these is drawn


class Draw(NamedTuple):
    """One federation, its problem, and the unit its steps are measured in."""

    panel: str
    seed: int
    shards: Shard
    smoothness: float
    theta: float
    eta: float

    @property
    def problem(self) -> Problem:
        return Problem(g=L1(self.theta), x0=np.zeros(D), loss=Logistic())


@pytree
class OwnNonzeros(Observer):
    """Non-zeros of FedMid's clients' models after their local steps: the mean over clients.

    Or, `averaged`, those of the clients' mean model.
    """

    averaged: bool = static()

    def __call__(self, seen):
        g = seen.problem.g
        down = seen.algorithm.broadcast(g, seen.server)

        def model(shard):
            f = seen.problem.objective(shard)
            reply = seen.algorithm.client(f, g, None, down, jax.random.key(0))
            return down + reply.up

        models = jax.vmap(model)(seen.shards)
        if self.averaged:
            return jnp.count_nonzero(seen.shards.weight @ models)
        return jnp.mean(jnp.count_nonzero(models, axis=1))


def draws(seeds: int) -> Iterator[Draw]:
    """All draws of both forms that have a solution to look for."""
    scale = window()
    for seed in range(seeds):
        made = synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=scale), seed=seed)
        slope = made.recipe["facts"]["gradient_at_zero"]
        with precision(np.float64):
            shards = shards_of(made.sites)
        if slope > THETA:
            yield Draw("paper", seed, shards, scale, THETA, 4.0)
        yield Draw("calibrated", seed, shards, scale, slope / 2, 0.2 / (15 * scale))


def window() -> float:
    """The smallest smoothness on the grid that leaves more than half of the draws a solution."""
    # Unit rows times a factor: |grad f(0)| grows like the square root of the smoothness.
    unit = [
        synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=1.0), seed=seed).recipe["facts"]
        for seed in range(DRAWS)
    ]
    slopes = np.array([facts["gradient_at_zero"] for facts in unit])
    return next(L for L in GRID if np.mean(slopes * np.sqrt(L) > THETA) > 0.5)


def methods(eta: float, tau: int, L: float) -> Iterator[tuple[str, str, Algorithm]]:
    """(method, variant, algorithm), with the paper's ratios between the methods' steps."""
    yield "Algorithm 1", "", Decoupled(eta, 15.0, tau)
    yield "FedDA", "", FedDA(eta, 15.0, tau)
    yield "FedMid", "", FedMid(eta / 4, 5.0, tau)
    yield "FedMid", "Algorithm 1's steps", FedMid(eta, 15.0, tau)
    yield "FedMid", "steps 10 times shorter", FedMid(eta / 40, 5.0, tau)
    yield "FedMid", "no server prox", FedMid(eta / 4, 5.0, tau, "none")
    yield from fast(MUS, tau, L)


def fast(mus: Sequence[float], tau: int, L: float) -> Iterator[tuple[str, str, Algorithm]]:
    """Both forms of Fast-FedDA, each with these mu."""
    for name, counted in zip(FAST, ("yes", "no"), strict=True):
        for mu in mus:
            yield name, f"mu = {mu:g} L", FastFedDA(mu * L, 2 * L, tau, counted)


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    return {
        "draws": 3 if quick else DRAWS,
        "rounds": ROUNDS,
        "observed every": {tau: every(tau) for tau in ROUNDS},
        "levels": LEVELS,
        "theta": THETA,
        "grid of smoothness": GRID,
        "mu over L": MUS,
    }


def every(tau: int) -> int:
    """Rounds between two observations: how finely a number of rounds is known."""
    return max(1, ROUNDS[tau] // SEEN)


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """One row per form, tau, method, draw and kept round; a part is one method's runs."""
    found = list(draws(settings(quick)["draws"]))
    panels = [[d for d in found if d.panel == name] for name in ("paper", "calibrated")]
    plan = [
        (chosen, tau, k)
        for chosen in panels
        for tau in ROUNDS
        for k in range(len(list(methods(1.0, tau, 1.0))))
    ]
    return len(plan), (runs(*job) for job in plan)


def runs(chosen: list[Draw], tau: int, k: int) -> Frame:
    """The k-th method on all draws of one form."""
    made = [list(methods(draw.eta, tau, draw.smoothness))[k] for draw in chosen]
    method, variant, _ = made[0]
    labels = {"panel": chosen[0].panel, "tau": tau, "method": method, "variant": variant}
    clients = {"clients_nonzeros": OwnNonzeros(False), "mean_nonzeros": OwnNonzeros(True)}
    more = clients if method == "FedMid" else {}
    trials = [
        Trial(draw.seed, algorithm, draw.problem, draw.shards, 1 / draw.smoothness, more)
        for draw, (_, _, algorithm) in zip(chosen, made, strict=True)
    ]
    table = traces(labels, trials, ROUNDS[tau], SEEN)
    return table[drawn(table) | arrives(table)].drop(columns="objective")


def drawn(frame: Frame) -> Frame:
    """Rows of the rounds that curves are drawn through: closer in the first tenth of a run."""
    end = frame["tau"].map(ROUNDS)
    early = (frame["round"] <= end // 10) & (frame["round"] % (end // 200).clip(lower=1) == 0)
    return early | (frame["round"] % (end // 40).clip(lower=1) == 0)


def arrives(table: Frame) -> Frame:
    """Rows in which a run is for the first time at or below one of the levels."""
    found = table["round"] < 0
    for level in LEVELS:
        below = table["optimality"] <= level
        first = table["round"].where(below).groupby(table["seed"]).transform("min")
        found |= table["round"] == first
    return found


def main_variants(frame: Frame, by: Sequence[str], end: Callable[[Frame], Frame] = final) -> Frame:
    """The rows a figure shows: the plain variants, and Fast-FedDA at its best mu in each panel."""
    parts = frame[frame["method"].isin(FAST)].groupby([*by, "method"])
    return pd.concat([frame[frame["variant"] == ""], *(best_variant(p, end) for _, p in parts)])
