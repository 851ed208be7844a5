"""The league table as a figure, a file and a section of a report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.report.page import Page
from proxfl.research.league.standings import Entry, summary
from proxfl.storage.files import whole, write_text

ABOUT = "settings.json"
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


def runs(entries: Sequence[Entry]) -> Frame:
    """Every tuned run: method, seed, round and what was seen, of which every fourth is kept."""
    kept = [entry.frame.groupby("seed").nth(slice(None, None, 4)) for entry in entries]
    named = zip(kept, entries, strict=True)
    return pd.concat([frame.assign(method=entry.entrant.name) for frame, entry in named])


def draw(table: Frame, seen: Frame, title: str) -> Figure:
    """Optimality against rounds, medians over draws."""
    figure, (ax,) = plots.panels(1, width=8.0, height=4.6)
    styles = ("-", "--", ":")
    for i, name in enumerate(table["method"]):
        part = seen[seen["method"] == name]
        median = part.pivot_table(index="round", columns="seed", values="optimality")
        line = median.median(axis=1).clip(lower=1e-16)
        colour, style = plots.COLOURS[i % 8], styles[i // 8 % 3]
        ax.plot(line.index, line, color=colour, linestyle=style, label=name)
    plots.label(ax, title, "communication round", "optimality", legend=False)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)
    ax.set_ylim(1e-16, 10)
    return figure


def save(entries: Sequence[Entry], name: str, out: Path, about: dict[str, Any]) -> None:
    """One problem's data; what they are of comes last, so that where it is, all is."""
    for kind, frame in (("runs", runs(entries)), ("table", ranked(entries))):
        with whole(out / name / f"{kind}.csv") as file:
            frame.to_csv(file, index=False, float_format="%.4g")
    write_text(out / name / ABOUT, json.dumps(about, indent=2) + "\n")


def is_saved(name: str, out: Path, about: dict[str, Any]) -> bool:
    """Whether runs of these settings are saved there; raises if those of other settings are."""
    path = out / name / ABOUT
    if not path.exists():
        return False
    if json.loads(path.read_text()) != about:
        raise ValueError(f"{path.parent} holds runs of other settings; choose another --out.")
    return True


def read(name: str, out: Path, kind: str = "table") -> Frame:
    return pd.read_csv(out / name / f"{kind}.csv", keep_default_na=False, na_values=["", "nan"])


def markdown(table: Frame) -> list[str]:
    cell = lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)
    rows = [list(table), ["---"] * len(list(table)), *table.values.tolist()]
    return ["| " + " | ".join(map(cell, row)) + " |" for row in rows]


def write(names: Sequence[str], out: Path, command: str) -> Path:
    """A figure per problem, and one report over all of them, from what is on disk."""
    page = Page("League table", f"Made by: {command}")
    short = [f"Made by `{command}`."]
    for name in names:
        table = read(name, out)
        figure = draw(table, read(name, out, "runs"), name)
        plots.save_figures({"league": figure}, out / name)
        page.section(name)
        page.figure(figure, "Median over draws; each method at its tuned steps.")
        columns = ["method", *SHORT, "tuned", "at grid edge"]
        page.table(columns, table[columns].fillna("").values.tolist())
        short += ["", f"### {name}", "", *markdown(table[["method", *NARROW]])]
    write_text(out / "tables.md", "\n".join(short) + "\n")
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
