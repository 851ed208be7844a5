"""Figure 2: the same with stochastic gradients, tau = 20, b = 1 and b = 20, theta = 0.0005.

Steps as printed (eta = 2, eta_g = 8), 2,000 rows per client, batches drawn without replacement.
"The other settings are the same" as in Figure 1, so features are scaled as there.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxfl.algorithms import Decoupled, FastFedDA, FedDA
from proxfl.data import Scaling, synthetic
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.problem import Problem, shards_of
from proxfl.prox import L1
from proxfl.research.reproduce.claims import Claim, verdict
from proxfl.research.reproduce.fig1 import MUS, window
from proxfl.research.runs import curves, main_variants, spread, trace, where

THETA, TAU, ETA, ETA_G, ROWS = 0.0005, 20, 2.0, 8.0, 2000
BATCHES = (1, 20)
METHODS = ("Algorithm 1", "FedDA", "Fast-FedDA")


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """Per seed, one row per batch, method and observed round."""
    seeds, rounds = (2, 200) if quick else (10, 400)
    L = window()
    return seeds, (runs(seed, rounds, L) for seed in range(seeds))


def runs(seed: int, rounds: int, L: float) -> Frame:
    made = synthetic(50.0, 50.0, rows=ROWS, scaling=Scaling("unit", smoothness=L), seed=seed)
    with precision(np.float64):
        shards = shards_of(made.sites)
    methods = [
        ("Algorithm 1", "", Decoupled(ETA, ETA_G, TAU)),
        ("FedDA", "", FedDA(ETA, ETA_G, TAU)),
        *(("Fast-FedDA", f"mu = {mu:g} L", FastFedDA(mu * L, 2 * L, TAU)) for mu in MUS),
    ]
    rows = []
    for batch, (method, variant, algorithm) in itertools.product(BATCHES, methods):
        labels = {"batch": batch, "seed": seed, "method": method, "variant": variant}
        problem = Problem(g=L1(THETA), x0=np.zeros(20), loss=Logistic(), batch=batch)
        rows.append(trace(labels, algorithm, problem, shards, rounds, 1 / L, seed))
    return pd.concat(rows).assign(smoothness=L)


def plateau(frame: Frame) -> Frame:
    """Each seed's median over the last quarter of the rounds: noise leaves no last value."""
    late = frame[frame["round"] > 0.75 * frame["round"].max()]
    return late.groupby("seed")["optimality"].median()


def draw(frame: Frame) -> dict[str, Figure]:
    shown = main_variants(frame, ["batch"], plateau)
    figure, axes = plots.panels(2)
    for ax, batch in zip(axes, BATCHES, strict=True):
        part = where(shown, batch=batch)
        title = f"Stochastic gradients, b = {batch} ({part.seed.nunique()} draws)"
        curves(ax, part, "method", METHODS, title, legend=batch == 1)
    return {"fig2": figure}


def claims(frame: Frame) -> list[Claim]:
    shown = main_variants(frame, ["batch"], plateau)
    level = lambda batch, method: plateau(where(shown, batch=batch, method=method))
    ours = {batch: level(batch, "Algorithm 1") for batch in BATCHES}
    small, large = ours.values()
    others = {(b, m): level(b, m) for b in BATCHES for m in METHODS[1:]}
    ahead = {(b, m): float((values > ours[b]).mean()) for (b, m), values in others.items()}
    levels = "; ".join(f"{m} at b = {b}: {spread(v)}" for (b, m), v in others.items())
    return [
        Claim(
            "stochastic gradients: a neighbourhood that shrinks with b",
            "Section 4.1, second experiment",
            "The algorithm converges to a neighbourhood, more precisely at b = 20 than at b = 1.",
            f"optimality over the last quarter, b = 1: {spread(small)}; b = 20: {spread(large)}",
            verdict(bool((large < small).all()), (large < small).mean() > 0.5),
        ),
        Claim(
            "stochastic gradients: the others are worse",
            "Section 4.1, second experiment",
            "FedDA and Fast-FedDA perform worse, for client drift or decaying steps.",
            f"Algorithm 1 at b = 1: {spread(small)}, at b = 20: {spread(large)}; {levels}. "
            "Algorithm 1 is ahead in "
            + ", ".join(f"{share:.0%} ({m}, b = {b})" for (b, m), share in ahead.items())
            + " of the draws",
            verdict(min(ahead.values()) >= 0.9, max(ahead.values()) >= 0.9),
        ),
    ]
