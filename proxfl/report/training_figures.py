"""The figures of one training run."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.train.saved import Saved, scales

MOST_BARS = 25
WIDTH, HEIGHT = 4.7, 2.9  # inches: letters stay legible where a phone shrinks the figure to fit


def bars(saved: Saved) -> Figure:
    scale = scales(saved)
    entries = [(e["feature"], e["value"] * scale[e["feature"]]) for e in saved.model["nonzeros"]]
    entries = sorted(entries, key=lambda pair: -abs(pair[1]))[:MOST_BARS][::-1]
    figure, (axes,) = plots.panels(1, width=WIDTH, height=0.8 + 0.2 * len(entries))
    colours = [plots.COLOURS[1] if value > 0 else plots.COLOURS[2] for _, value in entries]
    axes.barh([shorter(name) for name, _ in entries], [v for _, v in entries], color=colours)
    axes.axvline(0, color=plots.COLOURS[0], linewidth=0.8)
    axes.grid(False, axis="y")
    axes.set(xlabel="coefficient" + (" (standardised)" if saved.spec.standardise else ""))
    return figure


def shorter(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def marked(axes: Any, saved: Saved, x: np.ndarray) -> None:
    """Ticks at the rounds that were not counted."""
    missed = ~saved.series("counted").astype(bool)
    if missed.any():
        ground = axes.get_xaxis_transform()
        level = np.full(missed.sum(), 0.02)
        axes.plot(x[missed], level, "|", color=plots.COLOURS[2], transform=ground)


def line(axes: Any, saved: Saved, x: np.ndarray, y: np.ndarray) -> None:
    shown = saved.series("counted").astype(bool) & np.isfinite(y) & (y > 0)
    mark = "." if shown.sum() < 60 else ""
    axes.plot(x[shown], y[shown], color=plots.COLOURS[1], marker=mark)
    marked(axes, saved, x)


def optimality_figure(saved: Saved, x: np.ndarray, name: str) -> Figure:
    figure, (axes,) = plots.panels(1, width=WIDTH, height=HEIGHT)
    line(axes, saved, x, saved.series("optimality"))
    tolerance = saved.model["certificate"]["tolerance"]
    axes.axhline(tolerance, color=plots.COLOURS[0], linestyle="--", linewidth=0.8)
    plots.label(axes, "", name, "optimality", legend=False)
    return figure


def objective_figure(saved: Saved) -> Figure:
    figure, (axes,) = plots.panels(1, width=WIDTH, height=HEIGHT)
    above = saved.series("objective") - saved.model["certificate"]["objective"]
    line(axes, saved, saved.series("round"), above)
    plots.label(axes, "", "round", "objective above the final one", legend=False)
    return figure
