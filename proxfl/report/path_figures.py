"""Figures of a path: its coefficients, its scores, and how stable what it selects is."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.report.training_figures import WIDTH
from proxfl.train.folds import Validation, standard_error
from proxfl.train.path import RegularisationPath

NAMED = 6  # lines that get a colour and a name; the others are grey
MOST_ROWS = 40  # of a heat map
CHOICES = {"min": (":", "least loss"), "1se": ("--", "one standard error")}


def figures(path: RegularisationPath, validation: Validation) -> dict[str, Figure]:
    with matplotlib.rc_context(plots.STYLE):
        return {
            "coefficients": coefficients(path, validation),
            "cross-validation": scores(path, validation),
            "stability": stability(path, validation),
        }


def coefficients(path: RegularisationPath, validation: Validation) -> Figure:
    figure, (axes,) = plots.panels(1, width=WIDTH, height=4.2)
    values, names, what = path.sweep.parts.curves(path)
    size = np.abs(values)
    # The names go to the curves that matter most where the loss is least.
    order = np.lexsort((-size.max(axis=0), -size[validation.chosen("min")]))
    order = [j for j in order if values[:, j].any()]
    for j in order[NAMED:]:
        axes.plot(path.weights, entered(values[:, j]), color="0.75", linewidth=0.8, zorder=1)
    for i, j in enumerate(order[:NAMED]):
        style = {"color": plots.COLOURS[1 + i], "label": plots.words(names[j])}
        axes.plot(path.weights, entered(values[:, j]), **style, zorder=2)
    axes.axhline(0, color=plots.COLOURS[0], linewidth=0.8, zorder=0)
    weight_axis(axes, path, validation)
    axes.set(ylabel=what)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def entered(curve: np.ndarray) -> np.ndarray:
    """The curve without its zeros, but for the last before it enters and the first after it left.

    Else all curves lie on one another along the axis, and one hides the rest.
    """
    inside = curve != 0
    before, after = np.append(inside[1:], False), np.append(False, inside[:-1])
    return np.where(inside | before | after, curve, np.nan)


def scores(path: RegularisationPath, validation: Validation) -> Figure:
    shown = {"mean loss of rows left out": validation.losses}
    shown |= {f"{name} on rows left out": values for name, values in validation.scores.items()}
    figure, axes = plots.panels(1, width=WIDTH, height=3.2, rows=len(shown))
    each = np.ravel(axes)
    for where, (what, values) in zip(each, shown.items(), strict=True):
        band(where, path, validation, values)
        weight_axis(where, path, validation)
        where.set(ylabel=what)
    size_axis(each[0], path)
    lines, names = each[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=2 if len(names) % 2 == 0 else 3)
    return figure


def band(axes: Any, path: RegularisationPath, validation: Validation, values: np.ndarray) -> None:
    """The mean over folds with one standard error to either side; whole sites also one by one."""
    shares, colour = validation.shares, plots.COLOURS[1]
    mean, error = shares @ values, standard_error(shares, values)
    if path.choice.by == "sites":
        lines = axes.plot(path.weights, values.T, color="0.75", linewidth=0.8, zorder=1)
        lines[0].set_label("each site")
    axes.fill_between(path.weights, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    axes.plot(path.weights, mean, color=colour, marker=".", markersize=4, label="mean")


def stability(path: RegularisationPath, validation: Validation) -> Figure:
    """Parts by weights; those selected most, over all weights, on top."""
    shares = validation.stability
    order = np.argsort(-shares.sum(axis=0), kind="stable")
    order = [j for j in order if shares[:, j].any()][:MOST_ROWS]
    figure, (axes,) = plots.panels(1, width=WIDTH, height=1.4 + 0.19 * max(len(order), 3))
    edges = np.sqrt(path.weights[1:] * path.weights[:-1])
    first, last = path.weights[0] ** 2 / edges[0], path.weights[-1] ** 2 / edges[-1]
    edges = np.concatenate([[first], edges, [last]])
    mesh = axes.pcolormesh(
        edges, np.arange(len(order) + 1), shares[:, order].T, cmap="Blues", vmin=0, vmax=1
    )
    axes.set_yticks(np.arange(len(order)) + 0.5, [plots.words(validation.parts[j]) for j in order])
    axes.tick_params(axis="y", length=0)
    axes.grid(False)
    weight_axis(axes, path, validation, colour=plots.COLOURS[2])
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(max(len(order), 1), 0)
    figure.colorbar(mesh, ax=axes, label="share of folds", pad=0.02)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def weight_axis(
    axes: Any, path: RegularisationPath, validation: Validation, colour: str = plots.COLOURS[0]
) -> None:
    """Weights from large to small, as the path is walked; what each rule chooses is marked."""
    marks: dict[int, tuple[str, str]] = {}
    for rule, (style, name) in CHOICES.items():
        at = validation.chosen(rule)
        marks[at] = (style, f"{marks[at][1]} and {name}" if at in marks else name)
    for at, (style, name) in marks.items():
        weight = path.weights[at]
        axes.axvline(weight, color=colour, linestyle=style, linewidth=1, label=name, zorder=3)
    plots.logarithmic(axes, "x")
    axes.set(xlabel=path.sweep.axis)
    margin = (path.weights[0] / path.weights[-1]) ** 0.02
    axes.set_xlim(path.weights[0] * margin, path.weights[-1] / margin)


def size_axis(axes: Any, path: RegularisationPath) -> None:
    """The size of the model at a few weights, above the axes."""
    top, shown = axes.secondary_xaxis("top"), np.linspace(0, len(path.weights) - 1, 6).astype(int)
    top.set_xticks(path.weights[shown], path.sweep.parts.sizes(path)[shown], minor=False)
    top.set_xticks([], minor=True)
    top.set_xlabel(path.sweep.parts.size)
