"""Standard errors in the report of a run: a forest plot, and a table."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure

from proxfl.console.words import number
from proxfl.drawing import plots
from proxfl.losses import named
from proxfl.report.page import MOST_ROWS, Page
from proxfl.train.inference import INTERCEPT
from proxfl.train.saved import Saved

MOST_LINES = 40  # of a forest
WIDTH = 4.7  # inches
HEADS = {
    "coef": "coefficient",
    "se": "standard error",
    "robust_se": "robust",
    "sampling_se": "sampling",
    "lower": "lower",
    "upper": "upper",
    "p": "p",
}


def inference(made: Page, saved: Saved) -> None:
    held = saved.model["inference"]
    level = f"{100 * held['level']:g} % intervals"
    lines = held["coefficients"]
    made.figure(forest(lines), f"Coefficients with {level}, in units of their standard errors.")
    heads, rows = inferred(saved.model)
    told = " De-sparsified: not the coefficients of the model." if held["desparsified"] else ""
    made.table(heads, rows[:MOST_ROWS], f"By Wald, {level}; inference.csv has all.{told}")
    if "sampling_se" in next(iter(lines.values())):
        made.text(
            "A row of weight 2 has the errors of two rows. If weights say how rows were sampled, "
            "not how many there were, only the errors under 'sampling' are meant."
        )
    made.text(
        "The intervals hold for one model that was fixed before the data were seen: nothing is "
        "corrected for a weight or features chosen on the same rows, nor for many tests at once."
    )


def inferred(model: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """One row for each coefficient: what is known of it, and its ratio if it is the log of one."""
    ratio = cast(Any, named(model["loss"])).ratio
    lines = model["inference"]["coefficients"]
    known = [key for key in HEADS if any(line.get(key) is not None for line in lines.values())]
    heads = ["feature", *(HEADS[key] for key in known)]
    rows = [[name, *(line[key] for key in known)] for name, line in lines.items()]
    if ratio is None:
        return heads, rows
    ratios = [np.exp([line["coef"], line["lower"], line["upper"]]) for line in lines.values()]
    both = zip(rows, ratios, strict=True)
    return [*heads, ratio, "from", "to"], [[*row, *map(apart_from_1, each)] for row, each in both]


def apart_from_1(ratio: float) -> str:
    """With three digits, and with more where these would show no more than that it is near 1."""
    lost = -np.log10(max(abs(ratio - 1), 1e-6))
    return number(ratio, 3 + max(0, int(lost)))


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
