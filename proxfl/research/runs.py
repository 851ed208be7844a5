"""Runs of methods as rows of a table, what is read off those rows, and how they are drawn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from proxfl.core import Algorithm
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import Nonzeros, ObjectiveValue, Observer, optimality
from proxfl.engine.simulate import simulate
from proxfl.precision import precision
from proxfl.problem import Problem, Shard


def usual(problem: Problem, shards: Shard, step: float) -> dict[str, Observer]:
    """What is observed of every method; `step` is that of the proximal gradient in `optimality`."""
    return {
        "optimality": optimality(problem, shards, step),
        "objective": ObjectiveValue(),
        "nonzeros": Nonzeros(),
    }


def run(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    observe: Mapping[str, Observer],
    **options: Any,
) -> Frame:
    """One run in float64, without a progress bar: a row per observation."""
    with precision(np.float64):
        result = simulate(algorithm, problem, shards, observe=observe, progress=False, **options)
    return pd.DataFrame(result.history).drop(columns=["bytes_up", "bytes_down"])


def trace(
    labels: Mapping[str, Any],
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    rounds: int,
    step: float,
    seed: int = 0,
    more: Mapping[str, Observer] | None = None,
) -> Frame:
    """A hundred rows of (labels, round, optimality, objective, nonzeros, and what `more` sees)."""
    with precision(np.float64):
        observe = usual(problem, shards, step) | dict(more or {})
    frame = run(algorithm, problem, shards, observe, rounds=rounds, every=rounds // 100, seed=seed)
    return pd.DataFrame({**labels, **frame.drop(columns="seconds")})


def where(frame: Frame, **labels: Any) -> Frame:
    """The rows with these labels."""
    for name, value in labels.items():
        frame = frame[frame[name] == value]
    return frame


def final(frame: Frame, column: str = "optimality") -> Frame:
    """Each seed's last value."""
    return frame.sort_values("round").groupby("seed")[column].last()


def first_round(frame: Frame, there: Frame) -> Frame:
    """Each seed's first round whose row is `there`; NaN where none is."""
    first = frame[there].groupby("seed")["round"].min()
    return first.reindex(sorted(frame["seed"].unique()))


def rounds_to(frame: Frame, level: float) -> Frame:
    """Each seed's first round of at most this optimality; NaN where it never got there."""
    return first_round(frame, frame["optimality"] <= level)


def spread(values: Frame, digits: str = ".1e") -> str:
    """The median over seeds, with the range."""
    if values.isna().all():
        return "never"
    low, middle, high = values.min(), values.median(), values.max()
    return f"{middle:{digits}} ({low:{digits}} to {high:{digits}})"


def main_variants(frame: Frame, panel: list[str], end: Callable[[Frame], Frame]) -> Frame:
    """The rows a figure shows: the plain variants, and the best of Fast-FedDA in each panel."""
    keep = [frame[frame.variant == ""]]
    for _, part in where(frame, method="Fast-FedDA").groupby(panel):
        ends = {variant: end(rows).median() for variant, rows in part.groupby("variant")}
        keep.append(where(part, variant=min(ends, key=lambda variant: ends[variant])))
    return pd.concat(keep)


def curves(
    axes: Axes,
    frame: Frame,
    column: str,
    names: Sequence[str],
    title: str,
    measure: str = "optimality",
    y: str = "optimality",
    legend: bool = True,
) -> None:
    """A measure against rounds, one line and band for each name in a column."""
    for i, name in enumerate(names):
        rows = where(frame, **{column: name})
        plots.median_and_band(axes, rows, "round", measure, name, i, floor=1e-16)
    plots.label(axes, title, "communication round", y, legend=legend)
