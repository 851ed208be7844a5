"""Newton's method with the rows at hand: all exchanges of a model in one program.

They are those of `newton.py`, with two things that no network allows: the server's step and the
sites' answer are one program, and shorter ways are looked at after a step that was too long only.
What would have crossed a network is counted as if it had.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.engine.messages import message_bytes, one_of
from proxfl.losses import features_of
from proxfl.problem import Problem, Shard
from proxfl.train.drivers.driver import Record
from proxfl.train.drivers.judged import IDLE, IDLE_AT_END, Totals, question, shorter_length
from proxfl.train.drivers.newton import State, learn
from proxfl.train.drivers.together import Query, SharedExchange, Underway, unasked
from proxfl.train.local import Traffic
from proxfl.train.tasks import TASKS, upper

MOST = 64  # exchanges in one call of the program


class InProcess(SharedExchange):
    """Sets of sites in this process, all of one shape; counts what would have crossed a network."""

    def __init__(self, problem: Problem, sets: Sequence[Shard]):
        self.problem, self.sets, self.exchanges = problem, sets, 0
        self.members = len(sets[0].weight)
        self.asked: Counter[tuple[int, int]] = Counter()  # models, by place and size of a Hessian

    def __call__(self, asked: Sequence[Query]) -> list[Totals]:
        self.count([(place, len(about["features"]), 1) for place, about in asked])
        return [tell_alone(self.problem, self.sets[place], about) for place, about in asked]

    def advance(
        self, models: Sequence[Underway], tol: float, exactness: Any
    ) -> list[tuple[State, list[Record]]]:
        after, asked = [], []
        for (g, place, state), features, goal, most in models:
            about = self.problem, self.sets[place], g, state
            found, *log = exchanges(*about, goal, min(most, MOST), tol, exactness)
            columns, made = jax.device_get(log)
            rows = [Record(*(column[i].item() for column in columns)) for i in range(made)]
            after.append((found, rows))
            asked.append((place, len(features), len(rows)))
        self.count(asked)
        return after

    def count(self, asked: Sequence[tuple[int, int, int]]) -> None:
        """Models by place, features of a Hessian, and how often each is asked about: together,
        until each is done."""
        self.exchanges += max(times for *_, times in asked)
        for place, features, times in asked:
            self.asked[place, features] += times

    @property
    def traffic(self) -> Traffic:
        up = down = 0
        for (place, features), times in self.asked.items():
            size = self.size(place, features)
            up, down = up + times * size[0], down + times * size[1]
        return Traffic(self.exchanges, up, down)

    def size(self, place: int, features: int) -> tuple[int, int]:
        """The bytes up and down for one model, all sites together."""
        shards = self.sets[place]
        asked = question(unasked(self.problem, self), np.arange(features, dtype=np.int32))
        up = jax.eval_shape(TASKS["newton"], self.problem, one_of(shards), asked)
        sites = int(np.count_nonzero(shards.weight))
        return sites * message_bytes(up), sites * message_bytes(asked)


@jax.jit
def exchanges(
    problem: Problem,
    shards: Shard,
    g: Regulariser,
    state: State,
    goal: Any,
    most: Any,
    tol: Any,
    exactness: Any,
) -> tuple[State, Record, Any]:
    """Exchanges until the optimality is at the goal, none makes progress, or there were so many.

    Gives the state then; a record whose fields are columns, one row for each exchange; and how
    many there were.
    """
    loss: Any = problem.loss
    every = jnp.arange(features_of(problem.x0), dtype=jnp.int32)

    def told(state):
        """A quadratic loss has one Hessian, which is kept once it is known."""
        whole = lambda: tell(problem, shards, question(state, every))
        if not loss.quadratic:
            return whole()
        known = lambda: upper(state.known.hessian)
        rest = lambda: tell(problem, shards, question(state, every[:0]))._replace(triangle=known())
        return jax.lax.cond(jnp.isinf(state.known.loss), whole, rest)

    def go_on(carry):
        state, _, made = carry
        optimality = state.distance / jnp.where(state.scale > 0, state.scale, 1.0)
        idle = state.idle >= jnp.where(optimality <= tol, IDLE_AT_END, IDLE)
        return (made == 0) | ((made < most) & (optimality > goal) & ~idle)

    def once(carry):
        state, log, made = carry
        totals = told(state)
        unseen = jnp.full_like(totals.shorter, jnp.inf)
        after, seen = learn(g, state, totals._replace(shorter=unseen), exactness)

        def shorter():
            asked = question(state, every[:0])
            length = shorter_length(g, state, tell(problem, shards, asked).shorter)
            return after._replace(step=state.step._replace(length=length))

        after = jax.lax.cond(seen.counted, lambda: after, shorter)
        put = lambda column, value: column.at[made].set(value)
        return after, jax.tree.map(put, log, seen), made + 1

    numbers, flags = jnp.zeros(MOST), jnp.zeros(MOST, bool)
    log = Record(jnp.zeros(MOST, int), numbers, numbers, numbers, flags)
    return jax.lax.while_loop(go_on, once, (state, log, jnp.asarray(0)))


@jax.jit
def tell(problem: Problem, shards: Shard, asked: Mapping[str, Any]) -> Totals:
    """The means over a set of sites; one without rows has no weight."""
    each = jax.vmap(lambda shard: TASKS["newton"](problem, shard, dict(asked)))(shards)
    mean = lambda name: jax.tree.map(lambda a: jnp.tensordot(shards.weight, a, 1), each[name])
    return Totals(
        loss=mean("value"),
        gradient=mean("gradient"),
        triangle=mean("hessian"),
        finite=each["finite"].all(),
        shorter=mean("shorter"),
        values=each["value"],
    )


@jax.jit
def tell_alone(problem: Problem, shards: Shard, asked: Mapping[str, Any]) -> Totals:
    """The same of a point that no step leads to, for which no shorter ways are looked at."""
    return tell(problem, shards, asked)._replace(shorter=())
