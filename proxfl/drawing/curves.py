"""Curves of runs: one metric against rounds, seconds or bytes; figures are returned, not shown."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots

AXES = {
    "round": "communication round",
    "seconds": "seconds",
    "bytes_up": "bytes sent by a client",
    "bytes_down": "bytes received by a client",
}


def compare(results: Mapping[str, Any], metric: str = "optimality", along: str = "round") -> Figure:
    """The same metric of several runs, by name; each has a `history` of one array per metric."""
    figure, (axes,) = plots.panels(1)
    log = "y"
    for i, (name, result) in enumerate(results.items()):
        x, y = column(result, along), column(result, metric)
        colour = plots.COLOURS[i % len(plots.COLOURS)]
        axes.plot(x, y, color=colour, label=name, marker="." if len(x) < 20 else "")
        log = log if (y[np.isfinite(y)] > 0).all() else ""
    plots.label(axes, "", AXES.get(along, along), metric, log=log, legend=len(results) > 1)
    return figure


def column(result: Any, name: str) -> np.ndarray:
    if name not in result.history:
        known = ", ".join(result.history)
        raise ValueError(f"there is no metric {name!r} in the history; it has {known}.")
    return result.history[name]
