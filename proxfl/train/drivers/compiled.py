"""Solve for sites inside this process: the rounds of `adaptive`, many of them in one program.

A path and its folds are hundreds of small problems of one shape that differ in numbers alone. They
share two programs, one that begins and one that takes rounds, and stay in the latter until the
certificate is met. What would have crossed a network is the same as for `adaptive.Solver`.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.engine import messages
from proxfl.engine.blocks import mean_over_clients
from proxfl.engine.round import ask_clients, start
from proxfl.engine.smoothness import curvature_bound
from proxfl.engine.visit import round_key
from proxfl.points import Point
from proxfl.problem import Problem, Shard
from proxfl.prox import Zero
from proxfl.train.drivers.adaptive import (
    Known,
    State,
    algorithm_for,
    carried_over,
    choose,
    first_state,
    learn,
    lost,
    retreat,
)
from proxfl.train.drivers.driver import Record, Settings, refuse_curvature
from proxfl.train.drivers.endless import AT_INFINITY, falls_on, further, is_deep

NOT_FINITE = (
    "The objective is not finite at the starting point; check the data for huge values, or "
    "standardise the features."
)
MOST = 256  # rounds in one call of the program
BESIDE_ROUNDS = 3  # exchanges of one model: smoothness, the loss at the start, the certificate


class Standing(NamedTuple):
    """The server's state and the clients', after the last round that counted."""

    state: State
    clients: Any


class Solved(NamedTuple):
    """A model, its certificate, and where to go on from under another penalty."""

    x: Point
    loss: float
    objective: float
    optimality: float
    converged: bool
    gradient: Point
    run: Standing
    records: list[Record]
    obstacle: str | None = None


def solve(
    problem: Problem,
    shards: Shard,
    settings: Settings,
    seed: int = 0,
    before: Standing | None = None,
) -> Solved:
    """Rounds until the certificate is met, or used up; warm from `before`, under another penalty.

    Optimality is relative to the gradient's norm at the start, on a warm run at the first start.
    """
    # Numbers that a program is not made from are set alike, so that all weights share one program.
    usual, tol = replace(settings, rounds=1, tol=1.0), settings.tol
    run, key, records = before, jax.random.key(seed), []
    if run is None:
        run, mean = first_run(replace(problem, g=Zero()), shards, usual)
        refuse_curvature(float(mean))
        if not np.isfinite(float(run.state.known.loss + run.state.scale)):
            raise ValueError(NOT_FINITE)
    while True:
        anew, left = before is not None and not records, settings.rounds - len(records)
        made = int(run.state.round)
        run, log, found = take_rounds(problem, shards, run, anew, tol, left, key, usual)
        columns, taken = jax.device_get(log), int(run.state.round) - made
        records += [Record(*(column[i].item() for column in columns)) for i in range(taken)]
        loss, objective, distance = map(float, found[:3])
        optimality, over = (
            distance / (float(run.state.scale) or 1.0),
            len(records) >= settings.rounds,
        )
        close = optimality <= settings.tol
        on = close and (optimality <= tol or over) and endless(problem, shards, run.state)
        if on and not (over or is_deep(optimality, float(run.state.scale))):
            tol = optimality / 10
        elif optimality <= tol or over:
            stopped = AT_INFINITY if on else None
            numbers = loss, objective, optimality, close and not on
            return Solved(run.state.known.x, *numbers, found[3], run, records, stopped)


@partial(jax.jit, static_argnames="settings")
def first_run(problem: Problem, shards: Shard, settings: Settings):
    """The run before its first round, and the sites' mean smoothness."""
    bound = lambda shard: curvature_bound(problem, shard, problem.x0, jax.random.key(0))
    each = jax.vmap(bound)(shards)
    mean, largest = shards.weight @ each, jnp.max(jnp.where(shards.weight > 0, each, 0.0))
    loss, _, _, gradient = certify(problem, shards, problem.x0)
    state = first_state(problem, settings, mean, largest, Known(problem.x0, gradient, loss))
    algorithm = algorithm_for(settings, state.eta, state.eta_g)
    return Standing(state, start(algorithm, problem, shards).clients), mean


@partial(jax.jit, static_argnames="settings")
def take_rounds(
    problem: Problem, shards: Shard, run: Standing, anew, tol, most, key, settings: Settings
) -> tuple[Standing, Record, tuple[Any, Any, Any, Point]]:
    """Rounds until one meets the tolerance, at most `most`.

    Gives the run then; a record whose fields are columns, one row for each round taken; and the
    certificate.
    """
    g, tau, first = problem.g, settings.local_steps, run.state.round
    algorithm_of = lambda state: algorithm_for(settings, state.eta, state.eta_g)

    def go_on(carry):
        run, _, met = carry
        return ~met & (run.state.round - first < jnp.minimum(most, MOST))

    def one_round(carry):
        (state, clients), log, _ = carry
        algorithm, place = algorithm_of(state), round_key(key, state.round)
        about = (algorithm, problem, shards, clients, algorithm.broadcast(g, state.server))
        visited, received, info = ask_clients(*about, key=place)
        after, record = learn(algorithm, g, state, received, info["loss"], tau)
        if tau > 1:
            after = jax.lax.cond(lost(state, after), retreated, lambda after: after, after)
        put = lambda column, value: column.at[state.round - first].set(value)
        met = record.counted & (record.optimality <= tol)
        run = Standing(after, choose(record.counted, visited, clients))
        return run, jax.tree.map(put, log, record), met

    def retreated(state: State) -> State:
        gradient = certify(problem, shards, state.known.x)[3]
        return retreat(algorithm_of(state), g, state, gradient)

    warm = choose(anew, carried_over(g, settings, run.state), run.state)
    numbers, flags = jnp.zeros(MOST), jnp.zeros(MOST, bool)
    log = Record(jnp.zeros(MOST, int), numbers, numbers, numbers, flags)
    carry = Standing(warm, run.clients), log, jnp.asarray(False)
    run, log, _ = jax.lax.while_loop(go_on, one_round, carry)
    return run, log, certify(problem, shards, run.state.known.x)


def certify(problem: Problem, shards: Shard, x: Point) -> tuple[Any, Any, Any, Point]:
    """Loss, objective, distance to optimality and gradient at x."""

    def evaluate(shard):
        f = problem.objective(shard)
        return f.value(x), f.full_grad(x)

    g, (loss, gradient) = problem.g, mean_over_clients(evaluate, shards)
    return loss, loss + g.value(x), g.distance(x, gradient), gradient


def endless(problem: Problem, shards: Shard, state: State) -> bool:
    """Whether the objective falls on far beyond the model."""
    if not state.trend.suspect:
        return False
    loss = evaluate(problem, shards, further(state.known.x, state.trend))[0]
    return bool(falls_on(problem.g, state.known, state.trend, loss))


evaluate = jax.jit(certify)


def round_bytes(problem: Problem, shards: Shard, settings: Settings) -> tuple[int, int]:
    """What all sites together send up and get down in one round."""
    up, down = messages.round_bytes(algorithm_for(settings, 1.0, 1.0), problem, shards)
    sites = int(np.count_nonzero(shards.weight))
    return sites * up, sites * down
