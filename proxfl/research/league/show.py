"""The league tables as figures, files and a report."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.report.page import Page
from proxfl.research.league.standings import LEVELS
from proxfl.research.styles import style
from proxfl.storage.files import remove_folder, whole, write_text

ABOUT = "settings.json"
LEVEL, DEEP = (f"{level:.0e}" for level in LEVELS[1:])
ORDER = {"exact": 0, "slow": 1, "stalled": 2, "diverged": 3}
# What fits a terminal, a page of documentation, and a page of its own.
NARROW = ("method", "verdict", "optimality", f"exchanges to {LEVEL}", "kB up", "kB down")
DEEPER = (f"exchanges to {DEEP}", f"kB up to {DEEP}", f"kB down to {DEEP}")
PAGE = (*NARROW, "gradients", *DEEPER, "edge")
WIDE = (*NARROW, "gradients", "exchanges to 1e-03", *DEEPER, "edge", "tuned")


def ranked(rows: Sequence[dict[str, Any]]) -> Frame:
    """Exact methods first, by the exchanges they need; then the others by where they end."""
    frame: Frame = pd.DataFrame(rows)
    keys = frame.assign(place=frame["verdict"].map(ORDER))
    by = ["place", f"exchanges to {LEVEL}", "final optimality"]
    return keys.sort_values(by).drop(columns="place").reset_index(drop=True)


def verdict(row: Any) -> str:
    """That of the median draw, and whether others differ: a median hides a draw that diverged."""
    hidden = row["verdict"] == "exact" and row["final high"] > row["exact below"]
    return "exact in most draws" if hidden else row["verdict"]


def printed(table: Frame) -> Frame:
    """The table in words: medians over draws with their 95 % interval."""

    def spread(row: Any, of: str, low: str, high: str, digits: str) -> str:
        middle, ends = row[of], (row[low], row[high])
        if middle == float("inf"):
            return "-"
        same = ends[0] == middle == ends[1]
        between = "" if same else f" ({ends[0]:{digits}} to {ends[1]:{digits}})"
        return f"{middle:{digits}}" + between.replace("inf", "never")

    def row(line: Any) -> dict[str, str]:
        thousand = lambda name: line[name] / 1e3
        number = lambda value: "-" if value == float("inf") else f"{value:.3g}"
        told = {"method": line["method"], "verdict": verdict(line)}
        told["optimality"] = spread(line, "final optimality", "final low", "final high", ".1e")
        for level in (f"{level:.0e}" for level in LEVELS):
            ends = f"low to {level}", f"high to {level}"
            told[f"exchanges to {level}"] = spread(line, f"exchanges to {level}", *ends, ".0f")
        for way in ("up", "down"):
            told[f"kB {way}"] = number(thousand(f"bytes {way} to {LEVEL}"))
            told[f"kB {way} to {DEEP}"] = number(thousand(f"bytes {way} to {DEEP}"))
        told["gradients"] = number(line[f"gradients to {LEVEL}"])
        return told | {"edge": line["at grid edge"], "tuned": line["tuned"]}

    return pd.DataFrame([row(line) for _, line in table.iterrows()])


def draw(table: Frame, seen: Frame, title: str) -> Figure:
    """Optimality against exchanges, medians over draws."""
    figure, (ax,) = plots.panels(1, width=8.4, height=4.8)
    for i, name in enumerate(table["method"]):
        part = seen[seen["method"] == name]
        line = part["median"].clip(lower=1e-16)
        # Those who are done within a few exchanges show each of them.
        every = (i % 4, len(part) // 6) if len(part) > 24 else 1
        label = f"{i + 1}. {name}"
        ax.plot(
            part["exchange"], line, label=label, markevery=every, markersize=4, lw=1, **style(name)
        )
    plots.label(ax, title, "exchanges", "optimality", log="xy", legend=False)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)
    ax.set_ylim(1e-16, 10)
    return figure


def parts(name: str, out: Path, about: dict[str, Any]) -> Path:
    """Where a league of these settings keeps its entrants until it is complete."""
    return out / name / f"parts-{zlib.crc32(json.dumps(about).encode()):08x}"


def save(shown: Sequence[dict[str, Any]], name: str, out: Path, about: dict[str, Any]) -> None:
    """One league's data; what they are of comes last, so that where it is, all is."""
    curves = pd.concat([pd.DataFrame(one["curve"]) for one in shown])
    table = ranked([one["row"] for one in shown])
    for kind, frame in (("curves", curves), ("table", table)):
        with whole(out / name / f"{kind}.csv") as file:
            frame.to_csv(file, index=False, float_format="%.4g")
    write_text(out / name / ABOUT, json.dumps(about, indent=2) + "\n")
    remove_folder(parts(name, out, about))


def is_saved(name: str, out: Path, about: dict[str, Any]) -> bool:
    """Whether runs of these settings are saved there; raises if those of other settings are."""
    path = out / name / ABOUT
    if not path.exists():
        return False
    if json.loads(path.read_text()) != about:
        raise ValueError(f"{path.parent} holds runs of other settings; choose another --out.")
    return True


def read(name: str, out: Path, kind: str = "table") -> Frame:
    path = out / name / f"{kind}.csv"
    words: Any = {"at grid edge": str}
    return pd.read_csv(path, keep_default_na=False, na_values={}, dtype=words)


def markdown(table: Frame) -> list[str]:
    rows = [list(table), ["---"] * len(list(table)), *table.values.tolist()]
    return ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def first(table: Frame) -> str:
    """Who needs fewest exchanges, fewest bytes and fewest gradients to the middle level."""
    told = []
    for words, column in (
        ("exchanges", f"exchanges to {LEVEL}"),
        ("bytes up", f"bytes up to {LEVEL}"),
        ("gradients", f"gradients to {LEVEL}"),
    ):
        least = table[column].min()
        if least == float("inf"):
            return "nobody gets to 1e-6; lowest at the end: " + str(
                table.sort_values("final optimality")["method"].iloc[0]
            )
        told.append(f"{words}: " + ", ".join(table[table[column] <= 1.02 * least]["method"]))
    return "; ".join(told)


def write(names: Sequence[str], out: Path, command: str) -> Path:
    """A figure per league, and one report over all of them, from what is on disk."""
    page = Page("League tables", f"Made by: {command}")
    tables = {name: read(name, out) for name in names}
    short = [f"Made by `{command}`.", "", "### Who is first where", ""]
    overall = pd.DataFrame([[name, first(table)] for name, table in tables.items()])
    overall.columns = ["league", "fewest to 1e-6"]
    short += markdown(overall)
    page.section("Who is first where")
    page.table(list(overall), overall.values.tolist())
    for name, table in tables.items():
        figure = draw(table, read(name, out, "curves"), name)
        plots.save_figures({"league": figure}, out / name)
        page.section(name)
        page.figure(figure, "Medians over draws; each method at its tuned steps.")
        told = printed(table)
        page.table(list(WIDE), told[list(WIDE)].values.tolist())
        short += ["", f"### {name}", "", *markdown(told[list(PAGE)])]
    write_text(out / "tables.md", "\n".join(short) + "\n")
    page.section("How to read it")
    page.text(HOW)
    page.section("How to reproduce")
    page.code(command)
    return page.write(out / "report.html")


HOW = (
    "Every method with steps was tuned on three draws of its own, from grids of about the same "
    "size that were extended where the best point was at an edge; a parameter whose best value is "
    "still at an edge is named. Proximal Newton has nothing to tune; each column of a Hessian "
    "counts as a gradient. Optimality is the norm of the proximal gradient with step 1/L relative "
    "to the start, root mean square over the last tenth of the run. exact: below 1e-9, or a "
    "hundred units in the last place where numbers are single, in most draws if the interval "
    "reaches above it; slow: the median over draws is still falling, in the last fifth below 0.85 "
    "of what it was between half and seven tenths of the run; stalled: not. Exchanges, bytes of "
    "one client each way and gradients of one client are counted to an optimality of 1e-6 where "
    "no other is named. Numbers are medians over draws with their 95 % interval."
)
