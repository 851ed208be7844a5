"""Figures: one style, colours safe for the colour-blind, drawn off screen and returned."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# A pandas DataFrame or Series: the types pandas infers for itself are too wide to check against.
Frame = Any

# Okabe and Ito's palette; black first, for the method the paper proposes.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

STYLE: dict[Any, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.hashsalt": "proxfl",  # equal figures give equal files
    "svg.fonttype": "none",
}


def panels(
    count: int, width: float = 4.2, height: float = 3.2, rows: int = 1
) -> tuple[Figure, Any]:
    """A figure with `count` axes per row."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * count, height * rows))
        axes = figure.subplots(rows, count, squeeze=False)
    return figure, axes if rows > 1 else axes[0]


def median_and_band(
    axes: Axes, frame: Frame, x: str, y: str, label: str, index: int, floor: float | None = None
) -> None:
    """The median over seeds with a band from the first to the ninth decile."""
    table = frame.pivot_table(index=x, columns="seed", values=y)
    if floor is not None:
        table = table.clip(lower=floor)
    colour, rows = COLOURS[index % len(COLOURS)], len(table)
    axes.plot(
        table.index,
        table.median(axis=1),
        label=label,
        color=colour,
        marker=MARKERS[index % len(MARKERS)],
        markevery=(index * max(1, rows // 40), max(1, rows // 8)),
        markersize=4,
    )
    if table.shape[1] > 1:
        low, high = table.quantile(0.1, axis=1), table.quantile(0.9, axis=1)
        axes.fill_between(table.index, low, high, color=colour, alpha=0.15, linewidth=0)


def label(axes: Axes, title: str, x: str, y: str, log: str = "y", legend: bool = True) -> None:
    axes.set(title=title, xlabel=x, ylabel=y)
    if "y" in log:
        axes.set_yscale("log")
    if "x" in log:
        axes.set_xscale("log")
    if legend:
        axes.legend()


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Each figure as PNG and SVG, the same bytes for the same figure."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            with matplotlib.rc_context(STYLE):
                figure.savefig(path, dpi=200, metadata=metadata)
            paths.append(path)
    return paths
