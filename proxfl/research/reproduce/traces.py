"""One run of one method as rows of a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from proxfl.core import Algorithm
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import Nonzeros, ObjectiveValue, Observer
from proxfl.engine.measure import optimality as optimality_of
from proxfl.engine.simulate import simulate
from proxfl.precision import precision
from proxfl.problem import Problem, Shard


def trace(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    *,
    rounds: int,
    every: int,
    step: float,
    seed: int,
    labels: Mapping[str, Any],
    observe: Mapping[str, Observer] | None = None,
) -> Frame:
    """Rows of (labels, round, optimality, objective, nonzeros, ...), one per observation.

    `step` is that of the proximal gradient in `optimality`, one for all methods of a panel.
    """
    with precision(np.float64):
        observers = {
            "optimality": optimality_of(problem, shards, step),
            "objective": ObjectiveValue(),
            "nonzeros": Nonzeros(),
        }
        result = simulate(
            algorithm,
            problem,
            shards,
            rounds=rounds,
            every=every,
            seed=seed,
            observe=observers | dict(observe or {}),
            progress=False,
        )
    history = {k: v for k, v in result.history.items() if not k.startswith(("seconds", "bytes"))}
    frame = pd.DataFrame(history)
    for position, (name, value) in enumerate(labels.items()):
        frame.insert(position, name, value)
    return frame


def final(frame: Frame, column: str = "optimality") -> Frame:
    """Each seed's last value."""
    return frame.sort_values("round").groupby("seed")[column].last()


def rounds_to(frame: Frame, level: float, column: str = "optimality") -> Frame:
    """Each seed's first round at or below a level; NaN where it never got there."""
    there = frame[frame[column] <= level].groupby("seed")["round"].min()
    return there.reindex(sorted(frame["seed"].unique()))


def spread(values: Frame, digits: str = ".1e") -> str:
    """The median over seeds, with the range."""
    if values.isna().all():
        return "never"
    low, middle, high = values.min(), values.median(), values.max()
    return f"{middle:{digits}} ({low:{digits}} to {high:{digits}})"
