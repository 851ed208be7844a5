"""The league table as a figure, a file and a section of a report."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from proxfl.files import whole
from proxfl.league.table import Entry, summary
from proxfl.report import plots
from proxfl.report.page import Page
from proxfl.report.plots import Frame

# What fits a terminal, and what a page.
NARROW = ("verdict", "final optimality", "rounds to 1e-06", "kB up to 1e-06", "vectors up")
SHORT = (*NARROW, "vectors down", "gradients", "proxes", "ms per round", "nonzeros")


def ranked(entries: Sequence[Entry]) -> Frame:
    """Exact methods first, by the rounds they need; then the others by where they end."""
    frame: Frame = pd.DataFrame([summary(entry) for entry in entries])
    order = {"exact": 0, "slow": 1, "biased": 2, "diverged": 3}
    keys = frame.assign(place=frame["verdict"].map(order))
    by = ["place", "rounds to 1e-06", "final optimality"]
    return keys.sort_values(by).drop(columns="place").reset_index(drop=True)


def draw(entries: Sequence[Entry], title: str) -> Figure:
    """Optimality against rounds, medians over draws."""
    figure, (ax,) = plots.panels(1, width=8.0, height=4.6)
    table = ranked(entries)
    curves = {entry.entrant.name: entry.frame for entry in entries}
    styles = ("-", "--", ":")
    for i, name in enumerate(table["method"]):
        median = curves[name].pivot_table(index="round", columns="seed", values="optimality")
        line = median.median(axis=1).clip(lower=1e-16)
        colour, style = plots.COLOURS[i % 8], styles[i // 8 % 3]
        ax.plot(line.index, line, color=colour, linestyle=style, label=name)
    plots.label(ax, title, "communication round", "optimality", legend=False)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)
    ax.set_ylim(1e-16, 10)
    return figure


def write(results: dict[str, list[Entry]], out: Path, command: str) -> Path:
    """Per problem a CSV and a figure; over all of them one report."""
    page = Page("League table", f"Made by: {command}")
    for name, entries in results.items():
        table, figure = ranked(entries), draw(entries, name)
        with whole(out / f"{name}.csv") as file:
            table.to_csv(file, index=False, float_format="%.4g")
        plots.save_figures({name: figure}, out)
        page.section(name)
        page.figure(figure, "Median over draws; each method at its tuned steps.")
        columns = ["method", *SHORT, "tuned", "at grid edge"]
        page.table(columns, table[columns].values.tolist())
    page.section("How to read it")
    page.text(
        "Every method was tuned on draw 0, over a grid of the same size, and run on the other "
        "draws. Optimality is the norm of the proximal gradient with step 1/L relative to the "
        "start. exact: below 1e-9; slow: still falling at the end; biased: stalled above. A tuned "
        "value at the edge of its grid is named: the method might do better beyond it. Methods "
        "without a prox (FedAvg, FedProx, Scaffold, MimeLite, FedPD) solve the problem without g."
    )
    page.section("How to reproduce")
    page.code(command)
    return page.write(out / "report.html")
