"""Many models at once, which share their exchanges: the weights of a path, in all of its folds.

One exchange asks every site about all models that are not done yet. What would have crossed a
network is counted, for each model as for one of `newton.Newton`. Models of one shape share two
programs: one that goes on under another penalty, and one that asks and learns.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.engine.messages import message_bytes, one_of
from proxfl.errors import InputError
from proxfl.losses import features_of
from proxfl.points import Point
from proxfl.problem import Problem, Shard
from proxfl.train.drivers.compiled import NOT_FINITE
from proxfl.train.drivers.driver import Record, Settings
from proxfl.train.drivers.newton import (
    State,
    Told,
    carried_over,
    exactness_for,
    first_state,
    learn,
    obstacle,
    optimality_of,
    question,
)
from proxfl.train.local import Traffic
from proxfl.train.tasks import TASKS


class Wanted(NamedTuple):
    """A model to solve for: its penalty, its sites, and what is known of them by now."""

    g: Regulariser
    shards: Shard
    state: State


class Solved(NamedTuple):
    """A model as it was left, and what each exchange that it was in showed.

    `obstacle` says why it has no certificate, if more exchanges would not give it one.
    """

    state: State
    objective: float
    optimality: float
    records: list[Record]
    converged: bool
    obstacle: str | None

    @property
    def x(self) -> Point:
        return self.state.known.x


def unasked(problem: Problem, shards: Shard) -> State:
    return first_state(problem.x0, len(shards.weight))


def solve(
    problem: Problem,
    wanted: Sequence[Wanted],
    settings: Settings,
    watch: Callable[[int], None] = lambda done: None,
) -> tuple[list[Solved], Traffic]:
    """Exchanges until every model has its certificate, or will not get one; and their cost.

    `problem` is without a penalty. A model that is known of already is predicted first.
    """
    loss: Any = problem.loss
    exactness = exactness_for(loss, settings.tol)
    known = [bool(np.isfinite(model.state.known.loss)) for model in wanted]
    states = [
        carry_over(model.g, model.state, exactness) if known else model.state
        for model, known in zip(wanted, known, strict=True)
    ]
    records: list[list[Record]] = [[] for _ in wanted]
    left, traffic, sizes = range(len(wanted)), [], {}
    left = [i for i in left if goes_on(states[i], records[i], settings)]
    while left:
        sent = [0, 0]
        for i in left:
            g, shards, _ = wanted[i]
            features = 0 if loss.quadratic and (known[i] or records[i]) else features_of(problem.x0)
            states[i], seen = ask(problem, g, shards, states[i], exactness, features=features)
            records[i].append(Record(*(np.asarray(value).item() for value in seen)))
            if not (records[i][0].counted or known[i]) or not np.isfinite(float(states[i].scale)):
                raise InputError(NOT_FINITE)
            place = features, len(shards.weight)
            if place not in sizes:
                sizes[place] = message_sizes(problem, shards, states[i], features)
            sent = [old + new for old, new in zip(sent, sizes[place], strict=True)]
        traffic.append(Traffic(1, *sent))
        left = [i for i in left if goes_on(states[i], records[i], settings)]
        watch(len(wanted) - len(left))
    ends = zip(wanted, states, records, strict=True)
    found = [result(model.g, state, held, settings) for model, state, held in ends]
    return found, Traffic(*(sum(column) for column in zip(Traffic(), *traffic, strict=True)))


def goes_on(state: State, records: Sequence[Record], settings: Settings) -> bool:
    met = optimality_of(state) <= settings.tol
    return not met and len(records) < settings.rounds and not obstacle(state, settings.tol)


def result(g: Regulariser, state: State, records: list[Record], settings: Settings) -> Solved:
    optimality, stopped = optimality_of(state), obstacle(state, settings.tol)
    objective = float(state.known.loss + g.value(state.known.x))
    converged = optimality <= settings.tol and not stopped
    return Solved(state, objective, optimality, records, converged, stopped)


carry_over = jax.jit(carried_over)


@partial(jax.jit, static_argnames="features")
def ask(
    problem: Problem, g: Regulariser, shards: Shard, state: State, exactness: Any, features: int
) -> tuple[State, Record]:
    """One model's part of one exchange; a site without rows has no weight."""
    asked = question(state, jnp.arange(features, dtype=jnp.int32))
    each = jax.vmap(lambda shard: TASKS["newton"](problem, shard, asked))(shards)
    mean = lambda name: jax.tree.map(lambda a: jnp.tensordot(shards.weight, a, 1), each[name])
    told = Told(
        loss=mean("value"),
        gradient=mean("gradient"),
        triangle=mean("hessian"),
        finite=each["finite"].all(),
        shorter=mean("shorter"),
        values=each["value"],
    )
    return learn(g, state, told, exactness)


def message_sizes(problem: Problem, shards: Shard, state: State, features: int) -> tuple[int, int]:
    """The bytes up and down for one model, all sites together."""
    asked = question(state, jnp.arange(features, dtype=jnp.int32))
    up = jax.eval_shape(TASKS["newton"], problem, one_of(shards), asked)
    sites = int(np.count_nonzero(shards.weight))
    return sites * message_bytes(up), sites * message_bytes(asked)
