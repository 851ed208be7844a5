"""Curves of runs: one metric against rounds, seconds or bytes; figures are returned, not shown."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots


@runtime_checkable
class WithHistory(Protocol):
    """What has a history: one array per metric, all of one length."""

    @property
    def history(self) -> Mapping[str, np.ndarray]: ...


AXES = {
    "round": "communication round",
    "seconds": "seconds",
    "bytes_up": "bytes sent by a client",
    "bytes_down": "bytes received by a client",
}


def compare(
    results: Mapping[str, WithHistory], metric: str = "optimality", along: str = "round"
) -> Figure:
    """The same metric of several runs, by name, in one figure."""
    figure, (axes,) = plots.panels(1)
    log = "y"
    for i, (name, result) in enumerate(results.items()):
        x, y = column(result, along), column(result, metric)
        colour = plots.COLOURS[i % len(plots.COLOURS)]
        axes.plot(x, y, color=colour, label=name, marker="." if len(x) < 20 else "")
        log = log if (y[np.isfinite(y)] > 0).all() else ""
    plots.label(axes, "", AXES.get(along, along), metric, log=log, legend=len(results) > 1)
    return figure


def column(result: WithHistory, name: str) -> np.ndarray:
    if name not in result.history:
        known = ", ".join(result.history)
        raise ValueError(f"there is no metric {name!r} in the history; it has {known}.")
    return result.history[name]
