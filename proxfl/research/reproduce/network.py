"""Figure 3: a convolutional network on MNIST, Algorithm 1 against FedDA.

The settings and what the paper leaves open are in `fig3.py`, which computes the runs;
here are its figures and the claims judged by them. The second figure is an addition: the same at
larger theta, where the penalty removes most of the network.
"""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.research.reproduce import fig3
from proxfl.research.reproduce.claims import BANDS, Claim, Finding
from proxfl.research.runs import between, curves, first_round, where
from proxfl.research.statistics import median_interval
from proxfl.research.styles import style, styles

PARAMETERS = 112_394
WEIGHTS = "0.003, 0.001, 0.0003 and 0.0001"
# In points: half the standard error that 10,000 pictures leave of an accuracy of 99 %.
FLAT = 0.05
ROUND = "communication round"
CAPTIONS = {
    "fig3": f"{BANDS} Below, Algorithm 1's test accuracy less FedDA's, seed by seed: median and "
    "its 95 % interval; above zero Algorithm 1 is ahead. The first rounds are off the scale.",
    "fig3-sparsity": f"Every seed is a point; lines join the medians at ϑ = {WEIGHTS}.",
}


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    form: Any = fig3.QUICK if quick else fig3.PAPER
    return dataclasses.asdict(form["settings"]) | {name: form[name] for name in ("taus", "thetas")}


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """One row per run and observed round; finished cases are kept in the folder."""
    form: Any = fig3.QUICK if quick else fig3.PAPER
    total = len(fig3.METHODS) * math.prod(len(form[name]) for name in ("taus", "thetas"))
    files = fig3.compute(folder / ("runs-quick" if quick else "runs"), **form)
    return total, map(pd.read_csv, files)


def draw(frame: Frame) -> dict[str, Figure]:
    return {"fig3": accuracy_by_round(frame), "fig3-sparsity": accuracy_by_sparsity(frame)}


def accuracy_by_round(frame: Frame) -> Figure:
    """Test error against rounds, and by how much one method is more accurate; a column per tau."""
    paper = where(frame, theta=fig3.PAPER_THETA)
    paper = paper.assign(error=1 - paper["accuracy"])
    taus = sorted(paper["tau"].unique())
    figure, axes = plots.panels(len(taus), rows=2, height=2.8)
    for column, tau in enumerate(taus):
        part = where(paper, tau=tau)
        title = rf"MNIST, $\tau$ = {tau} ({part.seed.nunique()} seeds)"
        curves(axes[0, column], part, styles(fig3.METHODS), title, "error", "test error")
        # Most is learnt in the first hundredth of the rounds.
        plots.label(axes[0, column], title, ROUND, "test error", log="xy", legend=False)
        paired(axes[1, column], part)
    plots.legend_below(figure, axes.ravel(), 2)
    return figure


def paired(axes: Axes, frame: Frame) -> None:
    """Algorithm 1's accuracy less FedDA's with the same seed, in points, against rounds."""
    accuracy = frame.pivot_table(index="round", columns=["method", "seed"], values="accuracy")
    ours, theirs = (accuracy[method] for method in fig3.METHODS)
    points = 100 * (ours - theirs)
    middle, low, high = np.array([median_interval(row) for row in points.to_numpy()]).T
    colour = style("Algorithm 1")["color"]
    axes.plot(points.index, middle, color=colour, linewidth=1)
    axes.fill_between(points.index, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(0, color="0.5", linewidth=0.8)
    # The first rounds, in which both learn most, would leave nothing to see of the others.
    late = points.index > points.index.max() / 10
    axes.set_ylim(1.1 * min(low[late].min(), 0), 1.1 * max(high[late].max(), 0))
    y = "difference of accuracies (points)"
    plots.label(axes, "", ROUND, y, log="x", legend=False)


def accuracy_by_sparsity(frame: Frame) -> Figure:
    """Test accuracy and objective against theta, at the last round that all weights have."""
    last = at_common_end(frame)
    figure, (left, right) = plots.panels(2, width=4.6, height=3.6)
    for (method, tau), runs in last.groupby(["method", "tau"]):
        look = style(str(method)) | {"linestyle": "-" if tau == fig3.TAUS[0] else "--"}
        label = rf"{method}, $\tau$ = {tau}"
        middle = runs.groupby("theta")[["nonzeros", "accuracy", "objective"]].median()
        dots = {"s": 10, "alpha": 0.4, "color": look["color"], "marker": look["marker"]}
        left.scatter(runs["nonzeros"], 1 - runs["accuracy"], **dots)
        left.plot(middle["nonzeros"], 1 - middle["accuracy"], label=label, **look)
        right.plot(middle.index, middle["objective"], label=label, **look)
    x = f"non-zero parameters after round {last['round'].max():,}"
    title = rf"MNIST, $\vartheta$ falls from left to right ({last.seed.nunique()} seeds)"
    plots.label(left, title, x, "test error", log="xy", legend=False)
    plots.label(right, "", r"$\vartheta$", "training objective $f + g$", log="xy", legend=False)
    plots.legend_below(figure, (left,), 4)
    return figure


def at_common_end(frame: Frame) -> Frame:
    """Every run at the last round at which all were observed."""
    seen = frame.groupby("round")[["tau", "theta"]].apply(lambda rows: len(rows.drop_duplicates()))
    last = where(frame, round=seen[seen == seen.max()].index.max())
    return last.assign(objective=last["loss"] + last["penalty"])


def late(frame: Frame, first: float, last: float) -> Frame:
    """Each seed's mean accuracy in that span of the run: it flickers with the batches."""
    return between(frame, first, last).groupby("seed")["accuracy"].mean()


def compared(frame: Frame) -> Frame:
    """At the paper's theta: late accuracy, and the first round at the level FedDA ends at."""
    columns = {}
    for tau, part in where(frame, theta=fig3.PAPER_THETA).groupby("tau"):
        ours, dual = (where(part, method=method) for method in fig3.METHODS)
        level = late(dual, 0.9, 1.0)
        for name, rows in (("Algorithm 1", ours), ("FedDA", dual)):
            there = rows["accuracy"] >= rows["seed"].map(level)
            columns[f"{name}, tau = {tau}"] = late(rows, 0.9, 1.0)
            columns[f"first round, {name}, tau = {tau}"] = first_round(rows, there)
        columns[f"difference, tau = {tau}"] = late(ours, 0.9, 1.0) - level
    return pd.DataFrame(columns)


def gained(frame: Frame) -> Frame:
    """At the paper's theta, in points: what the last quarter has over the quarter before."""
    runs = where(frame, theta=fig3.PAPER_THETA).groupby(["method", "tau"])
    return pd.DataFrame(
        {
            f"{method}, tau = {tau}": 100 * (late(rows, 0.75, 1.0) - late(rows, 0.5, 0.75))
            for (method, tau), rows in runs
        }
    )


def of_tau(q: Frame) -> list[str]:
    return [name.split("tau = ")[1] for name in q if name.startswith("difference")]


CLAIMS = (
    Claim(
        "MNIST: higher accuracy with fewer rounds",
        "Section 4.2",
        "When τ = 5 and τ = 10, our algorithm overcomes client-drift issues and achieves "
        r"higher accuracy with fewer communication rounds than FedDA.",
        "mean test accuracy over the last tenth of the rounds, and the first round at which a run "
        "is as accurate as FedDA is there",
        "for a seed, Algorithm 1's accuracy is higher, and its first round is earlier",
        compared,
        lambda q: {
            **{
                f"higher, tau = {t}": q[f"Algorithm 1, tau = {t}"] > q[f"FedDA, tau = {t}"]
                for t in of_tau(q)
            },
            **{
                f"earlier, tau = {t}": q[f"first round, Algorithm 1, tau = {t}"]
                < q[f"first round, FedDA, tau = {t}"]
                for t in of_tau(q)
            },
        },
    ),
)


def by_weight(frame: Frame, column: str) -> Frame:
    """One quantity at the common end, by method, tau and theta."""
    last = at_common_end(frame)
    groups = last.groupby(["method", "tau", "theta"])
    return pd.DataFrame(
        {
            f"{method}, tau = {tau}, theta = {theta:g}": rows.set_index("seed")[column]
            for (method, tau, theta), rows in groups
        }
    )


FINDINGS = (
    Finding(
        "MNIST: what the last quarter of the rounds still gains",
        "points by which the mean test accuracy over the last quarter of the rounds exceeds that "
        f"over the quarter before; accuracy is called flat where the interval lies below {FLAT:g}: "
        "half the standard error that 10,000 pictures leave of an accuracy of 99 %",
        gained,
    ),
    Finding(
        "MNIST: non-zero parameters by weight",
        f"non-zero parameters, of {PARAMETERS:,}",
        lambda frame: by_weight(frame, "nonzeros"),
    ),
    Finding(
        "MNIST: test accuracy by weight",
        "test accuracy at the last round that all weights have",
        lambda frame: by_weight(frame, "accuracy"),
        "To be read against the non-zeros: which method's front of accuracy against sparsity is "
        "the better one depends on how sparse the model is to be (see the figure).",
    ),
    Finding(
        "MNIST: the objective by weight",
        "f + g at the last round that all weights have",
        lambda frame: by_weight(frame, "objective"),
    ),
)
