"""Do local steps save rounds? Steps tuned for every tau, and the longest step that is stable.

The problems of the ablation. For every tau and draw, a grid of eta_round L and eta_g; the best
point of each draw counts. At a fixed eta_round tau hardly matters: what local steps do is to make a
longer eta_round stable.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from proxfl.algorithms import Decoupled
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import optimality
from proxfl.engine.sweep import sweep
from proxfl.precision import precision
from proxfl.research.reproduce.ablation import THETA, D, DrawnSites, federations, problem_with
from proxfl.research.reproduce.claims import BANDS, Claim, Finding
from proxfl.research.runs import where
from proxfl.research.styles import style, variant

TAUS = (1, 2, 5, 10, 20)
STEPS = tuple(np.geomspace(0.25, 32.0, 22))  # eta_round L, a quarter apart
SERVER = (1.0, 4.0, 16.0)
ROUNDS = 300
LEVEL = 1e-6
CAPTIONS = {"local-steps": BANDS}


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    return {
        "draws": 2 if quick else 20,
        "rounds": ROUNDS,
        "level": LEVEL,
        "tau": TAUS,
        "eta_round L": [round(step, 4) for step in STEPS],
        "eta_g": SERVER,
        "theta": THETA,
    }


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """One row per tau, draw and grid point: rounds to the level, and where the run ended."""
    drawn = federations(10, 1.0, THETA, settings(quick)["draws"])
    plan = list(product(TAUS, range(len(drawn))))
    return len(plan), (runs(tau, seed, drawn[seed]) for tau, seed in plan)


def runs(tau: int, seed: int, drawn: DrawnSites) -> Frame:
    points = list(product(STEPS, SERVER))
    with precision(np.float64):
        problem = problem_with(THETA, np.zeros(D)).normalised()
        watch = {"optimality": optimality(problem, drawn.shards, 1 / drawn.L)}
    made = [Decoupled(long / (drawn.L * eta_g * tau), eta_g, tau) for long, eta_g in points]
    options: Any = dict(rounds=ROUNDS, every=1, observe=watch, progress=False)
    seen = sweep(made, problem, drawn.shards, **options)
    rows = []
    for (long, eta_g), curve in zip(points, seen.history["optimality"], strict=True):
        there = np.flatnonzero(np.nan_to_num(curve, nan=np.inf, posinf=np.inf) <= LEVEL)
        end = np.nan_to_num(curve[-1], nan=np.inf, posinf=np.inf)
        row = {"tau": tau, "seed": seed, "step": long, "eta_g": eta_g, "end": end}
        rows.append(row | {"rounds": float(there[0]) if there.size else np.inf})
    return pd.DataFrame(rows)


def tuned(frame: Frame) -> Frame:
    """Rounds to the level at each draw's best point, a column per tau."""
    best = frame.groupby(["seed", "tau"])["rounds"].min().unstack()
    return best.rename(columns=lambda tau: f"tau = {tau}")


def longest(frame: Frame, eta_g: float) -> Frame:
    """The largest eta_round L of the grid up to which no run ends above its start."""
    part = where(frame, eta_g=eta_g)

    def limit(rows: Any) -> float:
        ordered = rows.sort_values("step")
        unstable = np.flatnonzero(~(ordered["end"] < 1.0).to_numpy())
        steps = ordered["step"].to_numpy()
        return float(steps[unstable[0] - 1] if unstable.size and unstable[0] else steps[-1])

    stable = part.groupby(["seed", "tau"])[["step", "end"]].apply(limit).unstack()
    return stable.rename(columns=lambda tau: f"tau = {tau}")


def draw(frame: Frame) -> dict[str, Figure]:
    figure, (left, right) = plots.panels(2, height=3.4)
    band(left, tuned(frame), "steps tuned per $\\tau$", style("Algorithm 1"))
    for i, eta_g in enumerate(SERVER):
        band(right, longest(frame, eta_g), f"$\\eta_g$ = {eta_g:g}", variant(1 + i))
    plots.label(left, "Rounds", r"local steps $\tau$", "rounds to 1e-6", log="x", legend=False)
    y = r"largest stable $\eta\,\eta_g\,\tau\,L$"
    plots.label(right, "Stability", r"local steps $\tau$", y, log="xy", legend=False)
    left.set_ylim(bottom=0)
    for ax in (left, right):
        ax.set_xticks(TAUS, [str(tau) for tau in TAUS], minor=False)
        ax.xaxis.set_minor_locator(NullLocator())
    plots.legend_below(figure, (left, right), 4)
    return {"local-steps": figure}


def band(ax: Any, table: Frame, name: str, look: Any) -> None:
    """The median over draws against tau, with deciles."""
    shown = table.replace(np.inf, np.nan).T.set_axis(TAUS)
    ax.plot(TAUS, shown.median(axis=1), label=name, **look)
    plots.deciles(ax, shown, look["color"])


CLAIMS = (
    Claim(
        "local updates save rounds",
        "Abstract; Section 1.2",
        r"each client uses local updates to communicate less frequently with the server",
        f"rounds to {LEVEL:g} at each draw's best eta_round and eta_g",
        "in a draw, tau local steps need fewer rounds than one",
        tuned,
        lambda q: {f"tau = {tau}": q[f"tau = {tau}"] < q["tau = 1"] for tau in TAUS[1:]},
        "The saving levels off; it is nowhere near a factor tau once tau = 1 is tuned as well.",
    ),
)
FINDINGS = (
    Finding(
        "Local steps make longer steps stable",
        "largest eta_round L at which runs end below their start, eta_g = 4 (grid a quarter apart)",
        lambda frame: longest(frame, 4.0),
        "At tau = 1 it is 2, that of gradient descent.",
    ),
)
