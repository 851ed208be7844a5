"""Solve for sites inside this process: the rounds of `solver`, many of them in one program.

A path and its folds are hundreds of small problems of one shape that differ in numbers alone. They
share two programs, one that begins and one that takes rounds, and stay in the latter until the
certificate is met. What would have crossed a network is the same as for `solver.Solver`.
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
    NOT_FINITE,
    State,
    algorithm_for,
    carried_over,
    choose,
    first_state,
    retreat,
    search_round,
)
from proxfl.train.drivers.driver import Record, Settings, refuse_curvature

MOST = 256  # rounds in one call of the program


class Standing(NamedTuple):
    """The server's state and the clients', after the last round that counted."""

    state: State
    clients: Any


class Certificate(NamedTuple):
    """What full gradients tell of the last model."""

    loss: Any
    objective: Any
    distance: Any
    gradient: Point


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
    run, anew = begin(problem, shards, settings) if before is None else before, before is not None
    key, records = jax.random.key(seed), []
    static = {"tau": settings.local_steps, "accelerate": settings.accelerate}
    while True:
        left = settings.rounds - len(records)
        run, log, found = take_rounds(problem, shards, run, anew, settings.tol, left, key, **static)
        records += rows(log)
        if not records[0].counted and before is None:
            raise ValueError(NOT_FINITE)
        anew, scale = False, float(run.state.scale)
        optimality = float(found.distance) / (scale or 1.0)
        converged = optimality <= settings.tol
        if converged or len(records) >= settings.rounds:
            numbers = float(found.loss), float(found.objective), optimality, converged
            return Solved(run.state.known.x, *numbers, found.gradient, run, records)


def begin(problem: Problem, shards: Shard, settings: Settings) -> Standing:
    # What does not matter to the first state is the same for all, so that they share the program.
    usual = replace(settings, rounds=1, tol=1.0)
    run, mean = first_run(replace(problem, g=Zero()), shards, usual)
    refuse_curvature(float(mean))
    return run


@partial(jax.jit, static_argnames="settings")
def first_run(problem: Problem, shards: Shard, settings: Settings):
    """The run before its first round, and the sites' mean smoothness."""
    bound = lambda shard: curvature_bound(problem, shard, problem.x0, jax.random.key(0))
    each = jax.vmap(bound)(shards)
    mean, largest = shards.weight @ each, jnp.max(jnp.where(shards.weight > 0, each, 0.0))
    state = first_state(problem, settings, mean, largest)
    algorithm = algorithm_for(settings, state.eta, state.eta_g)
    return Standing(state, start(algorithm, problem, shards).clients), mean


class Columns(NamedTuple):
    """Records as arrays inside a program, field by field."""

    round: jax.Array
    objective: jax.Array
    optimality: jax.Array
    eta: jax.Array
    counted: jax.Array


class Log(NamedTuple):
    """Records, of which the first `length` rows are filled."""

    length: jax.Array
    columns: Columns


@partial(jax.jit, static_argnames=("tau", "accelerate"))
def take_rounds(
    problem: Problem,
    shards: Shard,
    run: Standing,
    anew,
    tol,
    most,
    key,
    *,
    tau: int,
    accelerate: bool,
) -> tuple[Standing, Log, Certificate]:
    """Rounds until one meets the tolerance, at most `most`; the run then, and the certificate."""
    g, settings = problem.g, Settings(local_steps=tau, accelerate=accelerate)

    def one_round(carry):
        (state, clients), log, _ = carry
        place, after = round_key(key, state.round, 0), clients

        def ask(algorithm, down):
            nonlocal after
            after, received, info = ask_clients(algorithm, problem, shards, clients, down, place)
            return received, info["loss"]

        mend = lambda lost, state: jax.lax.cond(lost, retreated, lambda state: state, state)
        state, (value, distance, counted) = search_round(settings, g, state, ask, mend)
        optimality = distance / jnp.where(state.scale > 0, state.scale, 1.0)
        record = Columns(state.round, value, optimality, state.eta, counted)
        run = Standing(state, choose(counted, after, clients))
        return run, write(log, record), counted & (optimality <= tol)

    def retreated(state: State) -> State:
        algorithm = algorithm_for(settings, state.eta, state.eta_g)
        return retreat(algorithm, g, state, certify(problem, shards, state.known.x).gradient)

    def go_on(carry):
        _, log, met = carry
        return ~met & (log.length < jnp.minimum(most, MOST))

    warm = choose(anew, carried_over(problem, settings, run.state), run.state)
    carry = Standing(warm, run.clients), empty_log(), jnp.asarray(False)
    run, log, _ = jax.lax.while_loop(go_on, one_round, carry)
    return run, log, certify(problem, shards, run.state.known.x)


def certify(problem: Problem, shards: Shard, x: Point) -> Certificate:
    def evaluate(shard):
        f = problem.objective(shard)
        return f.value(x), f.full_grad(x)

    g, (loss, gradient) = problem.g, mean_over_clients(evaluate, shards)
    return Certificate(loss, loss + g.value(x), g.distance(x, gradient), gradient)


def empty_log() -> Log:
    numbers, flags = jnp.zeros(MOST), jnp.zeros(MOST, bool)
    return Log(jnp.asarray(0), Columns(jnp.zeros(MOST, int), numbers, numbers, numbers, flags))


def write(log: Log, record: Columns) -> Log:
    put = lambda column, value: column.at[log.length].set(value)
    return Log(log.length + 1, jax.tree.map(put, log.columns, record))


def rows(log: Log) -> list[Record]:
    columns = jax.device_get(log.columns)
    return [Record(*(c[i].item() for c in columns)) for i in range(int(log.length))]


def round_bytes(problem: Problem, shards: Shard, settings: Settings) -> tuple[int, int]:
    """What all sites together send up and get down in one round."""
    up, down = messages.round_bytes(algorithm_for(settings, 1.0, 1.0), problem, shards)
    sites = int(np.count_nonzero(shards.weight))
    return sites * up, sites * down
