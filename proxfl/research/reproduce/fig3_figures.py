"""The figures of the third experiment, from the rows that `fig3.run` returns."""

import math
from typing import Any

from matplotlib.figure import Figure

from proxfl.research.reproduce.fig3 import PAPER_THETA, TAUS

Frame = Any  # a pandas.DataFrame, whose own annotations are too wide for a type checker
COLOURS = {"Algorithm 1": "#0072b2", "FedDA": "#d55e00"}


def draw(frame: Frame, theta: float = PAPER_THETA) -> Figure:
    """Test accuracy and objective against rounds, a column per tau; bands span the seeds."""
    frame = frame[frame["theta"] == theta]
    taus = sorted(frame["tau"].unique())
    figure = Figure(figsize=(max(5, 4.2 * len(taus)), 6), layout="constrained")
    axes: Any = figure.subplots(2, len(taus), sharex=True, sharey="row", squeeze=False)
    for column, tau in enumerate(taus):
        for row, name in enumerate(("accuracy", "objective")):
            band(axes[row, column], frame[frame["tau"] == tau], name)
        axes[0, column].set_title(rf"$\tau = {tau}$")
        axes[1, column].set_xlabel("communication rounds")
    # The first rounds climb from chance; the axis starts where the methods can be told apart.
    early = frame[frame["round"] >= frame["round"].max() / 10]["accuracy"].min()
    axes[0, 0].set_ylim(bottom=math.floor(20 * early) / 20, top=1)
    axes[0, 0].set_ylabel("test accuracy")
    axes[1, 0].set_ylabel("training objective $f + g$")
    axes[1, 0].set_yscale("log")
    axes[0, -1].legend(loc="lower right")
    seeds = frame["seed"].nunique()
    figure.suptitle(rf"MNIST, $\vartheta = {theta:g}$: median and range over seeds (n = {seeds})")
    return figure


def band(ax: Any, frame: Frame, name: str) -> None:
    """A line per method: the median over seeds, with a band from the least to the largest."""
    for method, runs in frame.groupby("method"):
        seeds = runs.groupby("round")[name]
        colour = COLOURS[method]
        ax.plot(seeds.median(), color=colour, label=method)
        ax.fill_between(seeds.min().index, seeds.min(), seeds.max(), color=colour, alpha=0.25, lw=0)
    ax.grid(alpha=0.3)


def draw_sparsity(frame: Frame) -> Figure:
    """Test accuracy against non-zero parameters at the last round, over theta."""
    last = frame[frame["round"] == frame["round"].max()]
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    ax: Any = figure.subplots()
    for (method, tau), runs in last.groupby(["method", "tau"]):
        style = {"color": COLOURS[method], "marker": "o" if tau == TAUS[0] else "s"}
        line = {"ls": "-" if tau == TAUS[0] else "--", "label": rf"{method}, $\tau = {tau}$"}
        middle = runs.groupby("theta")[["nonzeros", "accuracy"]].median()
        ax.scatter(runs["nonzeros"], runs["accuracy"], s=12, alpha=0.4, **style)
        ax.plot(middle["nonzeros"], middle["accuracy"], ms=5, **style, **line)
    thetas = ", ".join(f"{theta:g}" for theta in sorted(last["theta"].unique(), reverse=True))
    ax.set_title(rf"MNIST, $\vartheta$ from left to right: {thetas}")
    ax.set_xlabel(f"non-zero parameters after round {last['round'].max()}")
    ax.set_ylabel("test accuracy")
    ax.set_xscale("log")
    ax.grid(alpha=0.3, which="both")
    ax.legend()
    return figure
