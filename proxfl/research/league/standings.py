"""Tune every entrant on the same budget, then run it over draws."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from proxfl.drawing.plots import Frame
from proxfl.engine.compiled import forget_if_many
from proxfl.engine.smoothness import curvature_bound, mean_curvature_bound
from proxfl.engine.sweep import sweep
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.research.league.entrants import Entrant, mesh
from proxfl.research.league.work import Work, work
from proxfl.research.runs import rounds_to, run, usual
from proxfl.research.shipped import Shipped

LEVELS = (1e-3, 1e-6, 1e-10)
EXACT = 1e-9  # optimality that only a method without bias reaches


class Draw(NamedTuple):
    """A problem with the smoothness its steps are measured by."""

    problem: Problem
    shards: Shard
    L: float
    L_max: float
    observe: dict[str, Any]


def draw_of(shipped: Shipped) -> Draw:
    with precision(np.float64):
        problem = jax.tree.map(jnp.asarray, shipped.problem)
        key = jax.random.key(0)
        L = float(mean_curvature_bound(problem, shipped.shards, problem.x0, key))
        bound = lambda shard: curvature_bound(problem, shard, problem.x0, key)
        L_max = float(jax.lax.map(bound, shipped.shards).max())
        return Draw(problem, shipped.shards, L, L_max, usual(problem, shipped.shards, 1 / L))


class Entry(NamedTuple):
    """One method's line in the table."""

    entrant: Entrant
    point: dict[str, float]
    work: Work
    frame: Frame  # seed, round, optimality, objective, nonzeros, seconds


def play(
    entrants: Sequence[Entrant],
    problem: Callable[[int], Shipped],
    *,
    tau: int,
    rounds: int,
    seeds: int,
    report: Callable[..., None],
) -> list[Entry]:
    """Tune on draw 0, then run draws 1 to `seeds` with the tuned point."""
    draws = [draw_of(problem(seed)) for seed in range(seeds + 1)]
    entries = []
    for done, entrant in enumerate(entrants):
        point = tune(entrant, draws[0], tau, rounds)
        options = dict(rounds=rounds, every=max(1, rounds // 500))
        made = [entrant.make(point, draw.L, draw.L_max, tau) for draw in draws]
        frames = [
            run(made[seed], d.problem, d.shards, d.observe, **options).assign(seed=seed)
            for seed, d in enumerate(draws)
            if seed > 0
        ]
        with precision(np.float64):
            cost = work(made[0], draws[0].problem, draws[0].shards)
        entries.append(Entry(entrant, point, cost, pd.concat(frames, ignore_index=True)))
        forget_if_many()
        report(done + 1, total=len(entrants), note=entrant.name)
    return entries


def tune(entrant: Entrant, draw: Draw, tau: int, rounds: int) -> dict[str, float]:
    """The grid point that is fastest to the deepest level it reaches, else ends lowest."""
    points = mesh(entrant.grid)
    made = [entrant.make(point, draw.L, draw.L_max, tau) for point in points]
    seen = sweep(
        made,
        draw.problem,
        draw.shards,
        rounds=rounds,
        every=max(1, rounds // 60),
        observe={"optimality": draw.observe["optimality"]},
        progress=False,
    )
    curves = np.nan_to_num(seen.history["optimality"], nan=np.inf)
    return points[min(range(len(points)), key=lambda k: rank(curves[k]))]


def rank(curve: np.ndarray) -> tuple[int, float]:
    """Deeper levels first, then how soon the deepest was reached, then the last value."""
    for depth, level in enumerate(reversed((1e-2, *LEVELS))):
        reached = np.flatnonzero(curve <= level)
        if reached.size and curve[-1] <= 10 * level:
            return depth, float(reached[0])
    return len(LEVELS) + 1, float(curve[-1])


def summary(entry: Entry) -> dict[str, Any]:
    """The line as it is printed: medians over draws."""
    frame = entry.frame.sort_values("round")
    last = frame.groupby("seed").last()
    row: dict[str, Any] = {
        "method": entry.entrant.name,
        "verdict": judge(frame),
        "final optimality": float(last["optimality"].median()),
    }
    for level in LEVELS:
        there = float(rounds_to(frame, level).fillna(np.inf).median())
        row[f"rounds to {level:.0e}"] = there
        row[f"kB up to {level:.0e}"] = there * entry.work.bytes_up / 1e3
    return row | {
        "vectors up": entry.work.vectors_up,
        "vectors down": entry.work.vectors_down,
        "gradients": entry.work.gradients,
        "proxes": entry.work.proxes,
        "ms per round": 1e3 * float((last["seconds"] / last["round"]).median()),
        "nonzeros": float(last["nonzeros"].median()),
        "tuned": ", ".join(f"{k} = {v:.3g}" for k, v in entry.point.items()),
        "at grid edge": ", ".join(entry.entrant.at_edge(entry.point)),
    }


def judge(frame: Frame) -> str:
    """exact, slow (still falling), biased (stalled above the level of exactness) or diverged."""
    table = frame.pivot_table(index="round", columns="seed", values="optimality", dropna=False)
    end = table.iloc[-1].fillna(np.inf).median()
    if not np.isfinite(end) or end > 2:
        return "diverged"
    if end <= EXACT:
        return "exact"
    before = table.iloc[int(0.75 * len(table))].median()
    return "slow" if end < 0.7 * before else "biased"
