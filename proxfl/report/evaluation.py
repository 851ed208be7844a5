"""The folder of an evaluation: scores and curves as tables, pictures, and a page; whole or not.

evaluation.json     scores with intervals, of all sites and of each
scores.csv          the same, one line per site and score
NAME.csv            one line per site and point of each curve: roc, precision_recall, calibration,
                    residuals, confusion, as the model has them
figures/            PNG and SVG
report.html         all of it, to read
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxfl.console.words import called, count, csv_cell
from proxfl.drawing import plots
from proxfl.losses.scores.cells import WIDTH
from proxfl.report.page import Page
from proxfl.storage import documents
from proxfl.storage.files import whole_folder, write_text
from proxfl.train.evaluate import LEVEL, Evaluation, Judged

SUMMARY, REPORT = "evaluation.json", "report.html"
CONFUSION = "confusion"  # a curve that is a table
MOST_COLUMNS = 4  # sites that a table has beside one another
MOST_LINES = 8  # sites in a picture: as many as there are colours


class Panel(NamedTuple):
    """Two columns of a curve against one another, and where a dotted line is, by the ends of x."""

    x: str
    y: str
    dotted: Callable[[float, float], tuple[float, float]] | None = None


diagonal = lambda low, high: (low, high)
# Of each curve that is drawn: its heading, what it shows, and what the dotted line is of.
DRAWN = {
    "roc": (
        "ROC curve",
        [Panel("false_positive_rate", "true_positive_rate", diagonal)],
        "Dotted: no better than chance.",
    ),
    "precision_recall": ("Precision and recall", [Panel("recall", "precision")], ""),
    "calibration": (
        "Calibration",
        [Panel("predicted", "observed", diagonal)],
        "Dotted: predictions that are right.",
    ),
    "residuals": (
        "Residuals",
        [
            Panel("predicted", "mean_residual", lambda *ends: (0.0, 0.0)),
            Panel("predicted", "rms_residual"),
        ],
        "What was observed less what was predicted: its mean, and the root of its mean square. "
        "Dotted: predictions that are right.",
    ),
}
Scored = dict[str, float | None | dict[str, tuple[float | None, float | None]]]


class Summary(TypedDict):
    """What is read of the summary; scores by their names, and under `intervals` theirs."""

    overall: Scored
    sites: dict[str, Scored]
    draws: int
    classes: list[Any] | None
    threshold: float
    seed: NotRequired[int]
    masked: NotRequired[bool]


def write(where: Path, found: Evaluation, about: dict[str, Any]) -> None:
    found = labelled(found, about["classes"] or ())
    drawn = figures(found)
    with whole_folder(where) as made:
        documents.write_json(made / SUMMARY, summary(found, about))
        for name, frame in frames(found).items():
            text = frame.map(csv_cell).to_csv(index=False, lineterminator="\n")
            write_text(made / f"{name}.csv", text)
        plots.save_figures(drawn, made / "figures")
        page(found, drawn, about).write(made / REPORT)


def labelled(found: Evaluation, classes: Sequence[Any]) -> Evaluation:
    """With the labels of several classes in place of their numbers."""
    if len(classes) <= 2:
        return found
    labels = [csv_cell(str(label)) for label in classes]

    def named(judged: Judged) -> Judged:
        _, *columns = judged.curves[CONFUSION].values()
        heads = (f"predicted {label}" for label in labels)
        table = {"true": labels, **dict(zip(heads, columns, strict=True))}
        return judged._replace(curves=judged.curves | {CONFUSION: table})

    sites = {site: named(judged) for site, judged in found.sites.items()}
    return replace(found, overall=named(found.overall), sites=sites)


def summary(found: Evaluation, about: dict[str, Any]) -> dict[str, Any]:
    sites = {name: judged.to_dict() for name, judged in found.sites.items()}
    return {"format": "proxfl evaluation 1", **about, "overall": found.overall.to_dict()} | {
        "sites": sites
    }


def score_table(found: Evaluation) -> pd.DataFrame:
    """One row for each score of each site, those of all sites first."""
    scores = [
        {"site": site, "score": name, "value": value, "low": low, "high": high}
        for site, judged in found.all().items()
        for name, value in judged.scores.items()
        for low, high in [judged.intervals.get(name, (np.nan, np.nan))]
    ]
    return pd.DataFrame(scores)


def frames(found: Evaluation) -> dict[str, pd.DataFrame]:
    curves = {
        curve: pd.concat(
            [
                pd.DataFrame(judged.curves[curve]).assign(site=site)
                for site, judged in found.all().items()
            ]
        )
        for curve in found.overall.curves
    }
    first = lambda frame: frame[["site", *(name for name in frame if name != "site")]]
    return {"scores": score_table(found)} | {name: first(frame) for name, frame in curves.items()}


def figures(found: Evaluation) -> dict[str, Figure]:
    return {name: drawn(found, name) for name in DRAWN if name in found.overall.curves}


def drawn(found: Evaluation, name: str) -> Figure:
    _, shown, _ = DRAWN[name]
    figure, places = plots.panels(len(shown))
    for axes, panel in zip(places, shown, strict=True):
        draw(axes, found, name, panel)
    if len(found.sites) > 1:
        plots.legend_below(figure, places)
    return figure


def draw(axes: Any, found: Evaluation, name: str, panel: Panel) -> None:
    ends = [0.0, 1.0]
    for i, (site, judged) in enumerate(list(found.all().items())[:MOST_LINES]):
        width = 2.0 if i == 0 else 1.0
        points = judged.curves[name]
        x, y = points[panel.x], points[panel.y]
        look = {"color": plots.COLOURS[i], "linewidth": width, "label": plots.words(site)}
        grouped = "rows" in points  # which stand in the order of the scores
        axes.plot(x, y, "o" if grouped else "-", markersize=2 + width, **look)
        if i == 0 and x:
            ends = [min(x), max(x)]
    if panel.dotted:
        axes.plot(ends, panel.dotted(*ends), ":", color=plots.COLOURS[7])
    words = (panel.x.replace("_", " "), panel.y.replace("_", " "))
    plots.label(axes, "", *words, log="", legend=False)


def score_rows(found: Evaluation, sites: Mapping[str, Judged]) -> list[list[Any]]:
    """One row per score, one column for all sites and for each of those given."""
    columns = (found.overall, *sites.values())
    return [
        [name.replace("_", " "), *(cell(judged, name) for judged in columns)]
        for name in found.overall.scores
    ]


def saved_rows(held: Mapping[str, Any], sites: Sequence[str]) -> list[list[Any]]:
    """The same from a summary; intervals are those of all sites together."""
    number = lambda found: found if isinstance(found, int | float) else np.nan
    bare = lambda judged, pairs: Judged({n: number(judged.get(n)) for n in scores}, pairs, {})
    scores = [name for name in held["overall"] if name != "intervals"]
    pairs = held["overall"].get("intervals")
    known = {n: p for n, p in pairs.items() if None not in p} if isinstance(pairs, dict) else {}
    columns = [bare(held["overall"], known), *(bare(held["sites"][site], {}) for site in sites)]
    return [[name.replace("_", " "), *(cell(each, name) for each in columns)] for name in scores]


def cell(judged: Judged, name: str) -> str:
    value, interval = judged.scores[name], judged.intervals.get(name)
    if not np.isfinite(value):
        return "not known"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return shown if interval is None else f"{shown} ({interval[0]:.3g} to {interval[1]:.3g})"


def page(found: Evaluation, drawn: dict[str, Figure], about: dict[str, Any]) -> Page:
    rows = count(int(found.overall.scores["rows"]), "row")
    title = f"{called(about['target'])}: how good a {about['loss']} model is"
    made = Page(title, f"On {rows} of {count(found.number, 'site')}.")
    made.section("Scores")
    few = found.sites if len(found.sites) <= MOST_COLUMNS else {}
    made.table(["score", "overall", *few], score_rows(found, few), notes(about))
    if len(found.sites) > MOST_COLUMNS:
        heads = ["site", *(name.replace("_", " ") for name in found.overall.scores)]
        known = lambda value: value if np.isfinite(value) else "not known"
        each = [[site, *map(known, one.scores.values())] for site, one in found.sites.items()]
        made.table(heads, each, "Each site; intervals are in scores.csv.")
    for name, figure in drawn.items():
        heading, _, note = DRAWN[name]
        made.section(heading)
        more = f" The first {MOST_LINES - 1} sites." if len(found.sites) >= MOST_LINES else ""
        made.figure(figure, f"{note}{more}".strip())
    if CONFUSION in found.overall.curves:
        table = found.overall.curves[CONFUSION]
        made.section("Confusion")
        columns = zip(*table.values(), strict=True)
        made.table(list(table), [list(row) for row in columns], "Rows of all sites.")
    made.section("How to reproduce")
    made.code(about["command"])
    return made


def notes(about: Mapping[str, Any]) -> str:
    text = "Loss and deviance are means over rows."
    if about.get("masked"):
        text += " Scores by site are not told: under masks sites tell sums over all of them only."
    if about["draws"]:
        real = "masked" in about
        how = ", which it keeps to itself" if real else f" with replacement, seed {about['seed']}"
        text += (
            f" In brackets: {LEVEL:.0%} intervals, from {about['draws']} draws of each site's "
            f"rows{how}."
        )
    if about["classes"]:
        text += (
            f" Ranks are from counts in cells of {WIDTH:g} in the log odds; the resolution is how "
            "far the area may be off for it."
        )
    if about["classes"] and len(about["classes"]) == 2:
        positive, target = called(about["classes"][1]), called(about["target"])
        text += (
            f" Rows are called positive, which is {target} = {positive}, from a probability of "
            f"{about['threshold']:g} on."
        )
    return text
