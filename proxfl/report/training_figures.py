"""The figures of one training run."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.train.saved import Saved, scales

MOST_BARS = 25
WIDTH, HEIGHT = 4.7, 2.9  # inches: letters stay legible where a phone shrinks the figure to fit


def by_size(saved: Saved) -> list[dict[str, Any]]:
    """The coefficients with what they are for standardised features, by which they are sorted."""
    scale = scales(saved)
    entries = [e | {"scaled": e["value"] * scale[e["feature"]]} for e in saved.model["nonzeros"]]
    return sorted(entries, key=lambda entry: -abs(entry["scaled"]))


def bars(saved: Saved) -> Figure:
    entries = by_size(saved)[:MOST_BARS][::-1]
    names, values = [plots.words(e["feature"]) for e in entries], [e["scaled"] for e in entries]
    figure, (axes,) = plots.panels(1, width=WIDTH, height=0.8 + 0.2 * len(entries))
    colours = [plots.COLOURS[1] if value > 0 else plots.COLOURS[2] for value in values]
    axes.barh(range(len(names)), values, color=colours)
    axes.set_yticks(range(len(names)), names)
    axes.axvline(0, color=plots.COLOURS[0], linewidth=0.8)
    axes.grid(False, axis="y")
    axes.set(xlabel="coefficient" + (" (standardised)" if saved.spec.standardise else ""))
    return figure


def curve(saved: Saved, x: np.ndarray, y: np.ndarray, x_name: str, y_name: str) -> Figure:
    """A figure of one line, with ticks at the rounds that were not counted."""
    figure, (axes,) = plots.panels(1, width=WIDTH, height=HEIGHT)
    counted = saved.series("counted").astype(bool)
    shown = counted & np.isfinite(y) & (y > 0)
    mark = "." if shown.sum() < 60 else ""
    axes.plot(x[shown], y[shown], color=plots.COLOURS[1], marker=mark)
    if not counted.all():
        ground, level = axes.get_xaxis_transform(), np.full((~counted).sum(), 0.02)
        axes.plot(x[~counted], level, "|", color=plots.COLOURS[2], transform=ground)
    # Without points, as of a first round that is exact, there is nothing to take the log of.
    plots.label(axes, "", x_name, y_name, log="y" if shown.any() else "", legend=False)
    return figure


def optimality_figure(saved: Saved, x: np.ndarray, name: str) -> Figure:
    figure = curve(saved, x, saved.series("optimality"), name, "optimality")
    tolerance = saved.model["certificate"]["tolerance"]
    figure.axes[0].axhline(tolerance, color=plots.COLOURS[0], linestyle="--", linewidth=0.8)
    return figure


def objective_figure(saved: Saved) -> Figure:
    above = saved.series("objective") - saved.model["certificate"]["objective"]
    return curve(saved, saved.series("round"), above, "round", "objective above the final one")
