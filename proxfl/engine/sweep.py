"""Many runs in one compiled program: vmap over steps, weights, seeds and data sets.

Whatever is a leaf can be swept (eta, eta_g, theta, the seed, the data); what is static (tau, the
batch, the method) cannot, so loop over it. All runs advance together; one that diverges stops where
it is and costs nothing more in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.console.progress import progress as show_progress
from proxfl.core import Algorithm
from proxfl.engine.checks import check
from proxfl.engine.measure import Observer
from proxfl.engine.round import start
from proxfl.engine.simulate import SLOTS, Stretch, advance
from proxfl.points import Point, as_point, dtype
from proxfl.precision import precision
from proxfl.problem import Problem, Shard


@dataclass(frozen=True)
class Swept:
    """What each run showed: `history[name][k]` is run k's column, NaN from where it diverged on."""

    rounds: np.ndarray
    history: dict[str, np.ndarray]
    models: list[Point]
    diverged: np.ndarray


def sweep(
    algorithms: Sequence[Algorithm],
    problems: Problem | Sequence[Problem],
    shards: Shard | Sequence[Shard],
    *,
    rounds: int,
    observe: Mapping[str, Observer] | Sequence[Mapping[str, Observer]],
    every: int | None = None,
    seeds: Sequence[int] | None = None,
    cohort: int | None = None,
    progress: bool = True,
) -> Swept:
    """Run every algorithm on its problem and shards; what is given once serves all of them."""
    count = len(algorithms)
    one = problems if isinstance(problems, Problem) else problems[0]
    every = every or max(1, rounds // 100)
    with precision(dtype(as_point(one.x0))):
        data = shards if isinstance(shards, Shard) else shards[0]
        check(algorithms[0], one, data, rounds=rounds, cohort=cohort)
        method, _ = common(algorithms)
        problem, problem_axis = common(problems)
        data, data_axis = common(shards)
        watch, watch_axis = common(observe)
        axes = (0, problem_axis, data_axis)
        keys = jnp.array(seeds if seeds is not None else [0] * count)
        begin, step, output = programs(axes, watch_axis, cohort)
        run = begin(method, problem, data, keys)
        run, log, filled = step(method, problem, data, run, watch, Stretch(1, 0, True, {}))
        parts = [{k: blank(np.asarray(v), filled, 1) for k, v in log.items()}]
        with show_progress(f"{count} runs", rounds, progress) as report:
            done = 0
            while done < rounds:
                stride = min(every, rounds - done)
                times = max(1, min(SLOTS, (rounds - done) // stride))
                stretch = Stretch(times, stride, True, {})
                run, log, filled = step(method, problem, data, run, watch, stretch)
                parts.append({k: blank(np.asarray(v), filled, times) for k, v in log.items()})
                done += times * stride
                report(done)
        history = {k: np.concatenate([p[k] for p in parts], axis=1) for k in parts[0]}
        models = jax.tree.map(np.asarray, output(method, problem, run))
    seen = np.unique(history.pop("round"))
    lost = np.isnan(next(iter(history.values()))[:, -1])
    split = [jax.tree.map(lambda a, k=k: a[k], models) for k in range(count)]
    return Swept(seen[np.isfinite(seen)].astype(int), history, split, lost)


@cache
def programs(axes: tuple[Any, ...], watch_axis: Any, cohort: int | None) -> tuple[Any, ...]:
    """Start, advance and report, each for all runs at once; made once, so compiled once."""
    advanced = partial(advance, cohort=cohort, block=None)
    model = lambda algorithm, problem, run: algorithm.output(problem.g, run.server)
    return (
        jax.jit(jax.vmap(start, in_axes=(*axes, 0))),
        jax.jit(jax.vmap(advanced, in_axes=(*axes, 0, watch_axis, None))),
        jax.jit(jax.vmap(model, in_axes=(0, axes[1], 0))),
    )


def common(given: Any) -> tuple[Any, int | None]:
    """One object for all runs, or one each, stacked on the first axis."""
    if isinstance(given, Problem | Shard | Mapping):
        return jax.tree.map(jnp.asarray, given), None
    stack = lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves])
    return jax.tree.map(stack, *given), 0


def blank(column: np.ndarray, filled: Any, times: int) -> np.ndarray:
    """Observations made, as floats; NaN where a run had stopped."""
    made = np.arange(times)[None, :] < np.asarray(filled)[:, None]
    return np.where(made, column[:, :times].astype(float), np.nan)
