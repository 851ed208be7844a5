"""Figures of a path: its coefficients, its scores, and how stable what it selects is."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from proxfl.fit.folds import Validation, spread
from proxfl.fit.path import RegularisationPath
from proxfl.report import plots

NAMED = 7  # lines that get a colour and a name; the others are grey
MOST_ROWS = 40  # of a heat map
CHOICES = {"min": (":", "least loss"), "1se": ("--", "one standard error")}


def figures(path: RegularisationPath, validation: Validation) -> dict[str, Figure]:
    with matplotlib.rc_context(plots.STYLE):
        return {
            "coefficients": coefficients(path, validation),
            "cross-validation": scores(path, validation),
            "stability": stability(path, validation),
        }


def curves(path: RegularisationPath) -> tuple[np.ndarray, list[str], str]:
    """One column per line of the first figure, their names, and what they are."""
    if path.key == "nuclear":
        values = np.linalg.svd(path.coef, compute_uv=False)
        return values, [f"direction {k + 1}" for k in range(values.shape[1])], "singular value"
    scale, unit = np.array(path.agreement.scale), np.array(path.agreement.unit)
    scaled = bool((unit != 1).any() or path.spec.standardise)
    values, features = path.coef, list(path.agreement.features)
    if values.ndim == 2:
        what = "coefficient"
    else:
        values, what = np.linalg.norm(values, axis=2), "norm of coefficients over classes"
    if scaled:
        values, what = values * scale, what + "\nper standard deviation"
    return values, features, what


def coefficients(path: RegularisationPath, validation: Validation) -> Figure:
    figure, (axes,) = plots.panels(1, width=7.2, height=4.0)
    values, names, what = curves(path)
    largest = np.argsort(-np.abs(values).max(axis=0), kind="stable")
    for j in largest[NAMED:]:
        axes.plot(path.weights, values[:, j], color="0.75", linewidth=0.8, zorder=1)
    for i, j in enumerate(largest[:NAMED]):
        if values[:, j].any():
            colour = plots.COLOURS[1 + i]
            axes.plot(path.weights, values[:, j], color=colour, label=short(names[j]), zorder=2)
    mark_choices(axes, path, validation)
    weight_axis(axes, path)
    axes.set(ylabel=what)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="largest")
    return figure


def scores(path: RegularisationPath, validation: Validation) -> Figure:
    accuracies = validation.accuracies
    figure, all_axes = plots.panels(1 if accuracies is None else 2, width=4.8, height=3.8)
    band(all_axes[0], path, validation.mean, validation.error, "mean loss of rows left out")
    mark_choices(all_axes[0], path, validation, named=True)
    if accuracies is not None:
        mean = validation.shares @ accuracies
        error = spread(validation.shares, accuracies)
        band(all_axes[1], path, mean, error, "accuracy on rows left out")
        mark_choices(all_axes[1], path, validation)
    for axes in all_axes:
        weight_axis(axes, path)
        size_axis(axes, path)
    return figure


def band(axes: Any, path: RegularisationPath, mean: np.ndarray, error: np.ndarray, what: str):
    colour = plots.COLOURS[1]
    axes.fill_between(path.weights, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    axes.plot(path.weights, mean, color=colour, marker=".", markersize=4)
    axes.set(ylabel=what)


def stability(path: RegularisationPath, validation: Validation) -> Figure:
    """Parts by weights; those selected most, over all weights, on top."""
    shares = validation.stability
    order = np.argsort(-shares.sum(axis=0), kind="stable")
    order = [j for j in order if shares[:, j].any()][:MOST_ROWS]
    figure, (axes,) = plots.panels(1, width=7.2, height=1.3 + 0.19 * max(len(order), 3))
    edges = np.sqrt(path.weights[1:] * path.weights[:-1])
    first, last = path.weights[0] ** 2 / edges[0], path.weights[-1] ** 2 / edges[-1]
    edges = np.concatenate([[first], edges, [last]])
    mesh = axes.pcolormesh(
        edges, np.arange(len(order) + 1), shares[:, order].T, cmap="Blues", vmin=0, vmax=1
    )
    axes.set_yticks(np.arange(len(order)) + 0.5, [short(validation.parts[j]) for j in order])
    axes.grid(False)
    mark_choices(axes, path, validation, colour=plots.COLOURS[2])
    weight_axis(axes, path)
    axes.set_ylim(max(len(order), 1), 0)
    figure.colorbar(mesh, ax=axes, label="share of folds", pad=0.02)
    return figure


def mark_choices(
    axes: Any,
    path: RegularisationPath,
    validation: Validation,
    named: bool = False,
    colour: str = plots.COLOURS[0],
) -> None:
    for rule, (style, name) in CHOICES.items():
        weight = path.weights[validation.chosen(rule)]
        label = name if named else None
        axes.axvline(weight, color=colour, linestyle=style, linewidth=1, label=label, zorder=3)
    if named:
        axes.legend()


def weight_axis(axes: Any, path: RegularisationPath) -> None:
    """Weights from large to small, as the path is walked."""
    axes.set_xscale("log")
    axes.set(xlabel=f"weight {path.key}")
    axes.set_xlim(path.weights[0] * 1.05, path.weights[-1] / 1.05)


def size_axis(axes: Any, path: RegularisationPath) -> None:
    """The size of the model at a few weights, above the axes."""
    top, shown = axes.secondary_xaxis("top"), np.linspace(0, len(path.weights) - 1, 6).astype(int)
    top.set_xticks(path.weights[shown], sizes(path)[shown], minor=False)
    top.set_xticks([], minor=True)
    top.set_xlabel("directions" if path.key == "nuclear" else "coefficients that are not zero")


def sizes(path: RegularisationPath) -> np.ndarray:
    if path.key != "nuclear":
        return path.nonzeros
    values = np.linalg.svd(path.coef, compute_uv=False)
    return (values > 1e-10 * np.maximum(values[:, :1], np.finfo(float).tiny)).sum(axis=1)


def short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
