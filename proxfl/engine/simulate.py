"""Simulate a federation in one process: vmap over clients, loop over rounds, one compiled program.

The number of rounds, how often to observe, every step size and every regularisation weight are
data to that program, so changing them compiles nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from proxfl.console.progress import Report
from proxfl.console.progress import progress as show_progress
from proxfl.core import Algorithm
from proxfl.engine import masked as by_sums
from proxfl.engine.checks import check
from proxfl.engine.devices import agreed
from proxfl.engine.measure import Nonzeros, ObjectiveValue, Observer, Snapshot, optimality
from proxfl.engine.messages import round_bytes
from proxfl.engine.result import DivergenceError, Recorder, Result
from proxfl.engine.round import Run, finite, no_metrics, simulated_round, start
from proxfl.engine.smoothness import advice
from proxfl.points import as_point, dtype
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, relative_weights, shards_of

SLOTS = 64  # observations one call of the compiled program can hold
CALL_SECONDS = 0.5  # how long one such call should take, so that progress and Ctrl-C stay alive


class Plan(NamedTuple):
    """What is observed every so many rounds, of so many, and the bounds at which a run may end."""

    observe: Mapping[str, Observer]
    every: int
    rounds: int
    until: Mapping[str, float]


class Stretch(NamedTuple):
    """What one call is to do: `times` times, `every` rounds and, if it is `due`, an observation."""

    times: Any
    every: Any
    due: Any
    until: Mapping[str, Any]  # bounds, at or below which it ends


# From a run to where it then stands, what was observed on the way, and how often. It need not be
# all of a stretch that is done, as long as some of it is.
Step = Callable[[Run, Mapping[str, Observer], Stretch], tuple[Run, dict[str, Any], Any]]


def simulate(
    algorithm: Algorithm,
    problem: Problem,
    sites: Shard | Sequence[Any],
    *,
    rounds: int,
    weights: str | Sequence[float] = "uniform",
    run: Run | None = None,
    seed: int = 0,
    every: int | None = None,
    observe: Mapping[str, Observer] | None = None,
    until: Mapping[str, float] | None = None,
    cohort: int | None = None,
    block: int | None = None,
    masked: bool = False,
    progress: bool = True,
) -> Result:
    """Run `rounds` rounds, from the start or from where `run` stands.

    `observe` names the metrics recorded every `every` rounds; `until` stops the run once all the
    named metrics are at or below their bounds; `cohort` draws that many clients per round; `block`
    bounds memory by working on that many clients at a time. The precision is that of `x0`. All
    clients weigh the same, as in the paper, unless `weights` says otherwise: "samples" weighs them
    by their rows, as `px.fit` and `proxfl train` do. With `masked` the server has nothing but
    sums in fixed point, as in a federation under masks, which comes to the same bits.
    """
    x0 = as_point(problem.x0)
    with precision(dtype(x0)):
        problem = problem.normalised()
        shards = sites if isinstance(sites, Shard) else shards_of(sites, weights, dtype(x0))
        check(algorithm, problem, shards, rounds=rounds, cohort=cohort)
        if masked:
            by_sums.refuse(algorithm, problem, shards, cohort)
        if observe is None:
            observe = {
                "objective": ObjectiveValue(),
                "optimality": optimality(problem, shards, block=block),
                "nonzeros": Nonzeros(),
            }
        fresh, recorder = run is None, Recorder()
        if run is None:
            run = start(algorithm, problem, shards, seed)
        else:
            run = Run(*jax.tree.map(jnp.copy, run))  # the compiled program consumes its argument
        step = partial(compiled, algorithm, problem, shards, cohort=cohort, block=block)
        if masked:
            mass = shards.weight.tolist() if isinstance(sites, Shard) else weights
            step = step_by_sums(algorithm, problem, shards, mass, block)
        plan = Plan(observe, every or max(1, rounds // 100), rounds, until or {})
        with show_progress(type(algorithm).__name__, rounds, progress) as report:
            run, met = drive(step, run, fresh, plan, recorder, report, partial(agreed, shards))
        up, down = round_bytes(algorithm, problem, shards)
        model = jax.tree.map(np.asarray, algorithm.output(problem.g, run.server))
        result = Result(
            model,
            recorder.history(up, down),
            run,
            algorithm,
            met,
            up,
            down,
            recorder.compile_seconds,
        )
        if not bool(finite(run)):
            raise DivergenceError.of(result, advice(algorithm, problem, shards, block))
        return result


def step_by_sums(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    weights: str | Sequence[float],
    block: int | None,
) -> Step:
    """What stands for the compiled program where clients are visited one by one."""
    sites = by_sums.apart(shards, relative_weights(weights, shards.size.tolist()))

    def step(run: Run, observe: Mapping[str, Observer], stretch: Stretch):
        """The first time of a stretch."""
        info = no_metrics(partial(simulated_round, algorithm, problem, shards), run)
        if stretch.times:
            run, info = by_sums.rounds(algorithm, problem, sites, run, info, stretch.every)
        if not stretch.times or not (stretch.due or not finite(run)):
            return run, dict.fromkeys((*observe, "round"), np.zeros(0)), 0
        seen = look(algorithm, problem, shards, run, info, observe, block=block)
        return run, {name: np.atleast_1d(value) for name, value in seen.items()}, 1

    return step


@partial(jax.jit, static_argnames="block", inline=True)
def look(algorithm, problem, shards, run, info, observe, block) -> dict[str, Array]:
    """Every observer's number, and the round it belongs to."""
    x = algorithm.output(problem.g, run.server)
    seen = Snapshot(problem, shards, x, algorithm, run.server, run.clients, info, block)
    return {name: observer(seen) for name, observer in observe.items()} | {"round": run.round}


def advance(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    run: Run,
    observe: Mapping[str, Observer],
    stretch: Stretch,
    cohort: int | None,
    block: int | None,
) -> tuple[Run, dict[str, Array], Array]:
    """A stretch of a run; stops once its bounds are met or the run is not finite.

    Observing may cost more than many rounds, so a call that only goes part of the way does not;
    a run that is no longer finite is observed in any case.
    """
    times, every, due, until = stretch
    step = partial(simulated_round, algorithm, problem, shards, cohort=cohort, block=block)
    watch = partial(look, algorithm, problem, shards, observe=observe, block=block)
    info = no_metrics(step, run)
    shapes = jax.eval_shape(watch, run, info)
    log = jax.tree.map(lambda a: jnp.zeros((SLOTS, *a.shape), a.dtype), shapes)
    blank = lambda run, info: jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)

    def rounds_left(carry):
        run, _, k = carry
        return (k < every) & finite(run)

    def next_round(carry):
        run, _, k = carry
        return *step(run), k + 1

    def observations_left(carry):
        run, _, _, i, met = carry
        return (i < times) & ~met & finite(run)

    def next_observation(carry):
        run, info, log, i, _ = carry
        run, info, _ = jax.lax.while_loop(rounds_left, next_round, (run, info, 0))
        now = due | ~finite(run)
        seen = jax.lax.cond(now, watch, blank, run, info)
        log = jax.tree.map(lambda column, value: column.at[i].set(value), log, seen)
        met = [seen[name] <= bound for name, bound in until.items()]
        return run, info, log, i + 1, now & jnp.all(jnp.array(met)) if met else jnp.array(False)

    carry = run, info, log, jnp.array(0), jnp.array(False)
    run, _, log, i, _ = jax.lax.while_loop(observations_left, next_observation, carry)
    return run, log, i


compiled = jax.jit(advance, static_argnames=("cohort", "block"), donate_argnames="run")


def drive(
    step: Step,
    run: Run,
    fresh: bool,
    plan: Plan,
    recorder: Recorder,
    report: Report,
    agree: Callable[[float], float],
) -> tuple[Run, bool]:
    """Call the compiled program until the rounds are done, the goal is met or the run blows up.

    What there is to see before the first round is recorded of a fresh run: one that goes on has
    shown it before.
    How much one call does hangs on the time that calls take, as processes `agree` on it.
    """
    begun, (observe, every, rounds, until) = time.monotonic(), plan
    run, log, i = step(run, observe, Stretch(int(fresh), 0, True, until))  # compiles, runs no round
    first = int(run.round)
    recorder.compile_seconds = time.monotonic() - begun
    recorder.add(filled(log, i))
    pace, done, met = 1.0, 0, False  # pace: the rounds that fit into one call
    while done < rounds and not met:
        stride = min(every - done % every, rounds - done, max(1, int(pace)))
        whole = stride == every
        times = max(1, min(SLOTS, (rounds - done) // every, int(pace) // every)) if whole else 1
        due = (done + stride) % every == 0 or done + stride == rounds
        begun = time.monotonic()
        run, log, i = step(run, observe, Stretch(times, stride, due, until))
        now, spent = int(run.round) - first, agree(time.monotonic() - begun)
        log = filled(log, i)
        met = bool(until) and due and all(log[name][-1] <= bound for name, bound in until.items())
        blown = not bool(finite(run))
        seen = slice(None) if due or blown else slice(0)
        recorder.add({name: column[seen] for name, column in log.items()}, spent)
        pace = min(4 * max(pace, every), CALL_SECONDS * (now - done) / max(spent, 1e-9))
        done = now
        report(done)
        if blown:
            break
    return run, met


def filled(log: Mapping[str, Any], times: Any) -> dict[str, np.ndarray]:
    """The slots of a log that hold an observation."""
    return {name: np.asarray(column)[: int(times)] for name, column in log.items()}
