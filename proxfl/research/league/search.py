"""Grid or random search over steps and penalty weight; tau and batch are looped."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from proxfl.algorithms import REGISTRY
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.sweep import sweep
from proxfl.precision import precision
from proxfl.problem import Problem
from proxfl.prox import L1
from proxfl.research.league.draws import draw_of
from proxfl.research.league.entrants import Axis, mesh
from proxfl.research.runs import where
from proxfl.research.shipped import Shipped

Span = tuple[float, float, int]


def points(spans: Mapping[str, Span], random: int | None) -> list[dict[str, float]]:
    """A logarithmic grid of (low, high, count) for each name, or so many points drawn in it."""
    if random is None:
        return mesh(Axis(name, tuple(np.geomspace(*span))) for name, span in spans.items())
    rng = np.random.default_rng(0)
    logs = [rng.uniform(np.log(low), np.log(high), random) for low, high, _ in spans.values()]
    return [dict(zip(spans, point, strict=True)) for point in np.exp(logs).T.tolist()]


def search(
    problem: Callable[[int], Shipped],
    algorithm: str,
    points: Sequence[dict[str, float]],
    *,
    taus: Sequence[int],
    batches: Sequence[int | None],
    seeds: int,
    rounds: int,
) -> Frame:
    """One row per point, tau, batch and seed: where it ended, and whether it diverged."""
    method: Any = REGISTRY.get(algorithm)
    if method is None or not {"eta", "eta_g", "tau"} <= set(method.__dataclass_fields__):
        raise ValueError(f"{algorithm!r} is no method with eta, eta_g and tau; choose another.")
    rows = []
    for seed in range(seeds):
        draw = draw_of(problem(seed))
        for tau, batch in itertools.product(taus, batches):
            with precision(np.float64):
                given = [variant(draw.problem, point, batch) for point in points]
            seen = sweep(
                [method(p["eta"], p["eta_g"], tau) for p in points],
                given,
                draw.shards,
                rounds=rounds,
                every=rounds,
                observe=draw.observe,
                seeds=[seed] * len(points),
            )
            for k, point in enumerate(points):
                ends = {name: column[k, -1] for name, column in seen.history.items()}
                labels = {"tau": tau, "batch": batch or "all", "seed": seed}
                rows.append(point | labels | ends | {"diverged": bool(seen.diverged[k])})
    return pd.DataFrame(rows)


def variant(problem: Problem, point: dict[str, float], batch: int | None) -> Problem:
    g = L1(point["theta"]) if "theta" in point else problem.g
    return jax.tree.map(jnp.asarray, Problem(g, problem.x0, problem.loss, batch))


def draw(frame: Frame) -> Figure:
    """Final optimality over (eta, eta_g), a panel per tau; grey where runs diverged."""
    taus = sorted(frame["tau"].unique())
    figure, axes = plots.panels(len(taus), width=4.4, height=3.4)
    shown = frame.replace([np.inf], np.nan)
    for ax, tau in zip(axes, taus, strict=True):
        part = (
            where(shown, tau=tau).groupby(["eta", "eta_g"], as_index=False)["optimality"].median()
        )
        ax.set_facecolor("0.85")
        dots = ax.scatter(
            part["eta"],
            part["eta_g"],
            c=part["optimality"].clip(1e-16, 1e2),
            norm=LogNorm(1e-16, 1e2),
            cmap="viridis",
            marker="s",
            s=90,
        )
        plots.label(ax, rf"$\tau$ = {tau}", r"$\eta$", r"$\eta_g$", log="xy", legend=False)
        figure.colorbar(dots, ax=ax, label="final optimality (median)")
    return figure
