"""Runs of methods as rows of a table, what is read off those rows, and how they are drawn."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from proxfl.core import Algorithm
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import Nonzeros, ObjectiveValue, Observer, optimality
from proxfl.engine.simulate import simulate
from proxfl.engine.sweep import sweep
from proxfl.points import as_point, dtype
from proxfl.precision import precision
from proxfl.problem import Problem, Shard

FLOOR = 1e-16  # of curves: rounding leaves nothing to see below
NOTHING: Mapping[str, Observer] = MappingProxyType({})


class Trial(NamedTuple):
    """One method on one draw of a problem; `step` is that by which optimality is measured."""

    seed: int
    algorithm: Algorithm
    problem: Problem
    shards: Shard
    step: float
    more: Mapping[str, Observer] = NOTHING  # to observe besides


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


def traces(
    labels: Mapping[str, Any], trials: Sequence[Trial], rounds: int, rows: int = 100
) -> Frame:
    """All trials in one program, each as `rows` rows of (labels, seed, round, observations).

    What a draw that diverged would have shown after that is infinite.
    """
    with precision(dtype(as_point(trials[0].problem.x0))):
        problems = [one.problem.normalised() for one in trials]
        each = zip(problems, trials, strict=True)
        observe = [usual(p, one.shards, one.step) | dict(one.more) for p, one in each]
    every = max(1, rounds // rows)
    methods, shards = [one.algorithm for one in trials], [one.shards for one in trials]
    seeds = [one.seed for one in trials]
    options: Any = dict(rounds=rounds, every=every, observe=observe, progress=False)
    seen = sweep(methods, problems, shards, seeds=seeds, **options)
    frames = []
    for k, seed in enumerate(seeds):
        columns = {name: column[k] for name, column in seen.history.items()}
        at = np.minimum(np.arange(len(columns["optimality"])) * every, rounds)
        frames.append(pd.DataFrame({**labels, "seed": seed, "round": at, **columns}))
    table = pd.concat(frames)
    return table.fillna({name: np.inf for name in seen.history})


def where(frame: Frame, **labels: Any) -> Frame:
    """The rows with these labels."""
    for name, value in labels.items():
        frame = frame[frame[name] == value]
    return frame


def between(frame: Frame, first: float, last: float) -> Frame:
    """The rows of a span of the run, told in parts of its rounds."""
    end = frame["round"].max()
    return frame[(frame["round"] > first * end) & (frame["round"] <= last * end)]


def final(frame: Frame, column: str = "optimality") -> Frame:
    """Each seed's last value."""
    return frame.sort_values("round").groupby("seed")[column].last()


def first_round(frame: Frame, there: Frame) -> Frame:
    """Each seed's first round whose row is `there`; infinite where none is."""
    first = frame[there].groupby("seed")["round"].min()
    return first.reindex(sorted(frame["seed"].unique())).fillna(np.inf).astype(float)


def rounds_to(frame: Frame, level: float) -> Frame:
    """Each seed's first round of at most this optimality; infinite where it never got there."""
    return first_round(frame, frame["optimality"] <= level)


def best_variant(frame: Frame, end: Callable[[Frame], Frame] = final) -> Frame:
    """Of the variants of one method, the one whose median end is lowest."""
    ends = {variant: end(rows).median() for variant, rows in frame.groupby("variant")}
    return where(frame, variant=min(ends, key=lambda variant: ends[variant]))


def curves(
    axes: Axes,
    frame: Frame,
    looks: Mapping[str, Mapping[str, Any]],
    title: str,
    measure: str = "optimality",
    y: str = "optimality",
) -> None:
    """A measure against rounds: for each method that has a look the median over draws, with deciles
    as a band."""
    for i, (name, look) in enumerate(looks.items()):
        rows = where(frame, method=name)
        table = rows.pivot_table(index="round", columns="seed", values=measure).clip(lower=FLOOR)
        plots.median_and_band(axes, table, i, label=symbols(name), **look)
    plots.label(axes, title, "communication round", y, legend=False)
    axes.locator_params(axis="x", nbins=5)


def symbols(name: str) -> str:
    """A name as a figure shows it."""
    return name.replace("theta", r"$\vartheta$").replace("z_hat", r"$\hat{z}$")
