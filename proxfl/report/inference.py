"""Standard errors in the report of a run: a forest plot, and a table."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.losses import named
from proxfl.report.page import Page
from proxfl.train.inference import INTERCEPT
from proxfl.train.saved import Saved

MOST_LINES = 40  # of a forest
MOST_ROWS = 500
WIDTH = 4.7  # inches


def inference(made: Page, saved: Saved) -> None:
    kind: Any = named(saved.spec.loss)
    held, ratio = saved.model["inference"], kind.ratio
    lines = held["coefficients"]
    level = f"{100 * held['level']:g} % intervals"
    made.figure(forest(lines), f"Coefficients with {level}, in units of their standard errors.")
    heads = ["feature", "coefficient", "standard error", "robust", "lower", "upper", "p"]
    keys = ["coef", "se", "robust_se", "lower", "upper", "p"]
    rows = [[name, *(line[key] for key in keys)] for name, line in lines.items()]
    if ratio is not None:
        heads += [ratio, "from", "to"]
        rows = [[*row, *np.exp([row[1], row[4], row[5]]).tolist()] for row in rows]
    told = " De-sparsified: not the coefficients of the model." if held["desparsified"] else ""
    made.table(heads, rows[:MOST_ROWS], f"By Wald, {level}; inference.csv has all.{told}")
    made.text(
        "The intervals hold for one model that was fixed before the data were seen: nothing is "
        "corrected for a weight or features chosen on the same rows, nor for many tests at once."
    )


def forest(lines: dict[str, dict[str, Any]]) -> Figure:
    """Each coefficient and its interval, both divided by the standard error."""
    shown = [(name, line) for name, line in lines.items() if name != INTERCEPT][:MOST_LINES][::-1]
    places = np.arange(len(shown))
    error = lambda line: line["robust_se"] if line["se"] is None else line["se"]
    half = np.array([(line["upper"] - line["coef"]) / error(line) for _, line in shown])
    figure, (axes,) = plots.panels(1, width=WIDTH, height=0.8 + 0.2 * max(len(shown), 1))
    centres = np.array([line["z"] for _, line in shown])
    axes.errorbar(centres, places, xerr=half, fmt="o", color=plots.COLOURS[1], markersize=3)
    axes.set_yticks(places, [plots.words(name) for name, _ in shown])
    axes.axvline(0, color=plots.COLOURS[0], linewidth=0.8)
    axes.grid(False, axis="y")
    axes.set(xlabel="coefficient / standard error")
    return figure
