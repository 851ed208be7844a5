"""Tune an entrant: a grid that grows wherever its best point is at an edge.

A point is judged by the worst of its runs on the tuning draws: the deepest level reached, then how
soon, then where it ended.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from proxfl.engine.sweep import sweep
from proxfl.research.league.draws import Draw
from proxfl.research.league.entrants import BUDGET, Axis, Entrant, mesh

LEVELS = (1e-2, 1e-3, 1e-6, 1e-9)
GROWTH = 2  # values added beyond an edge at a time
EXTENSIONS = 5  # so many times at most: methods whose error falls for ever are shown at their edge


class Tuned(NamedTuple):
    point: dict[str, float]
    edge: list[str]  # parameters still at the edge of their grid
    points: int  # how many were tried


def tune(entrant: Entrant, draws: Sequence[Draw], tau: int, rounds: int) -> Tuned:
    """The best point of a grid that was extended until it is inside, or as often as is allowed."""
    axes, tried, todo, left = list(entrant.grid), {}, mesh(entrant.grid), EXTENSIONS
    while True:
        for start in range(0, len(todo), BUDGET):
            part = todo[start : start + BUDGET]
            ranks = judge(entrant, part, draws, tau, rounds)
            tried |= {tuple(point.values()): rank for point, rank in zip(part, ranks, strict=True)}
        best = min(tried, key=lambda key: tried[key])
        point = dict(zip((axis.name for axis in axes), best, strict=True))
        grown = [extended(axis, point[axis.name]) for axis in axes]
        edge = [a.name for a, b in zip(axes, grown, strict=True) if a != b]
        if not edge or not left:
            return Tuned(point, edge, len(tried))
        axes, left = grown, left - 1
        todo = [p for p in mesh(axes) if tuple(p.values()) not in tried and near(p, point, axes)]


def extended(axis: Axis, value: float) -> Axis:
    """The axis with more values beyond the end at which this one is."""
    values = axis.values
    if axis.choices or values[0] < value < values[-1]:
        return axis
    ratio = values[1] / values[0]
    if value == values[0]:
        more = tuple(values[0] / ratio**k for k in range(GROWTH, 0, -1))
        return axis._replace(values=(*more, *values))
    return axis._replace(values=(*values, *(values[-1] * ratio**k for k in range(1, GROWTH + 1))))


def near(p: dict[str, float], point: dict[str, float], axes: Sequence[Axis]) -> bool:
    """Whether every coordinate is at most GROWTH places from the best point's."""
    place = lambda axis, at: axis.values.index(at[axis.name])
    return all(abs(place(axis, p) - place(axis, point)) <= GROWTH for axis in axes)


def judge(
    entrant: Entrant,
    points: Sequence[dict[str, float]],
    draws: Sequence[Draw],
    tau: int,
    rounds: int,
) -> list[tuple[int, float]]:
    """Each point's rank on the worst draw; always as many runs, so that one program serves."""
    padded = [*points, *[points[-1]] * (BUDGET - len(points))]
    found = []
    for draw in draws:
        every = max(1, rounds // 300)
        seen = sweep(
            [entrant.make(point, draw.unit(tau)) for point in padded],
            draw.problem,
            draw.shards,
            rounds=rounds,
            every=every,
            observe={"optimality": draw.observe["optimality"]},
            cohort=draw.cohort,
            progress=False,
        )
        curves = np.nan_to_num(seen.history["optimality"], nan=np.inf, posinf=np.inf)
        found.append([rank(curve) for curve in curves[: len(points)]])
    return [max(ranks) for ranks in zip(*found, strict=True)]


def rank(curve: Any) -> tuple[int, float]:
    """Deeper levels first, then how soon the deepest was reached, then the last value."""
    late = curve[-max(1, len(curve) // 10) :]
    end = float(np.exp(np.log(late + np.finfo(float).tiny).mean()))  # squares would overflow
    for depth, level in enumerate(reversed(LEVELS)):
        reached = np.flatnonzero(curve <= level)
        if reached.size and end <= 10 * level:
            return depth, float(reached[0])
    return len(LEVELS), end
