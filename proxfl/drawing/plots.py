"""Figures: one style, colours safe for the colour-blind, drawn off screen and returned."""

import io
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogFormatterSciNotation

from proxfl.console.words import printable
from proxfl.storage.files import whole

# A pandas DataFrame or Series: the types pandas infers for itself are too wide to check against.
Frame = Any

# Okabe and Ito's palette; black first, for the method the paper proposes.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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


def median_and_band(axes: Axes, table: Frame, place: int, **look: Any) -> None:
    """The median over draws, which are columns, with a band from the first to the ninth decile; of
    lines in different places, the markers stand apart."""
    rows = len(table)
    marked = {"markevery": (place * max(1, rows // 40), max(1, rows // 8)), "markersize": 4}
    axes.plot(table.index, table.median(axis=1), **marked, **look)
    if table.shape[1] > 1:
        deciles(axes, table, look["color"])


def deciles(axes: Axes, table: Frame, colour: str) -> None:
    """A band from the first to the ninth decile over draws, which are columns."""
    low, high = table.quantile(0.1, axis=1), table.quantile(0.9, axis=1)
    axes.fill_between(table.index, low, high, color=colour, alpha=0.15, linewidth=0)


def legend_below(figure: Figure, axes: Iterable[Axes], columns: int = 4) -> None:
    """One legend for all panels, each name once, where it covers no data.

    It has fewer columns where names are so long that the figure would cut them.
    """
    found = {}
    for one in axes:
        found |= dict(zip(*reversed(one.get_legend_handles_labels()), strict=True))
    with matplotlib.rc_context(STYLE):
        for ncols in range(columns, 0, -1):
            names = (found.values(), found.keys())
            legend = figure.legend(*names, loc="outside lower center", ncols=ncols)
            if ncols == 1 or legend.get_window_extent().width <= figure.bbox.width:
                break
            legend.remove()


def label(axes: Axes, title: str, x: str, y: str, log: str = "y", legend: bool = True) -> None:
    axes.set(title=title, xlabel=x, ylabel=y)
    for name in log:
        logarithmic(axes, name)
    if legend:
        axes.legend()


def logarithmic(axes: Axes, name: str) -> None:
    """The axis x or y by powers of ten."""
    axes.set(**{f"{name}scale": "log"})
    axis = axes.yaxis if name == "y" else axes.xaxis
    axis.set(major_formatter=Powers(), minor_formatter=Powers())


class Powers(Formatter):
    """Powers of ten in letters: as formulas they take a quarter of a figure's time."""

    def __init__(self):
        self.inner = LogFormatterSciNotation()

    def set_axis(self, axis: Any) -> None:
        self.inner.set_axis(axis)

    def set_locs(self, locs: Any) -> None:
        self.inner.set_locs(locs)

    def __call__(self, x: float, pos: int | None = None) -> str:
        formula = self.inner(x, pos).replace(r"\times", "×")
        raised = re.sub(r"\^\{(.*?)\}", lambda found: found[1].translate(RAISED), formula)
        return re.sub(r"[$]|\\mathdefault|[{}]", "", raised)


def words(text: Any, most: int = 28) -> str:
    """A name from outside as matplotlib shows it: no formula between dollars, never left out.

    A label that begins with an underscore would be missing in a legend.
    """
    shown = printable(text, most).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def drawn(figure: Figure, kind: str, dpi: int) -> bytes:
    """The figure as a file of this kind, the same bytes for the same figure."""
    buffer, metadata = io.BytesIO(), {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a box stands for it
        # Names from outside may leave no room between them: the figure is drawn as it comes.
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def save_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Each figure as PNG and SVG."""
    paths = []
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            with whole(path) as file:
                file.write(drawn(figure, kind, 200))
            paths.append(path)
    return paths
