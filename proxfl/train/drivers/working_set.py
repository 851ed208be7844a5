"""Newton's method for many coefficients: Hessians on a working set, and gradients elsewhere.

One round is one exchange, as in `newton.py`: the loss and the full gradient at a point, and the
losses at shorter ways. The model of the loss has two ages. At first it is made of gradients alone:
the BFGS matrix of the last pairs of moves and differences of gradients (Byrd, Nocedal, Schnabel
1994), in all coefficients, minimised with the penalty by accelerated proximal gradient steps. That
finds most of what is not zero.

Once that is near, sites tell the Hessian along with a point: on the features that are free there by
the model, and on those that a somewhat steeper slope would free; the penalty holds all others where
they are. A Hessian is large, so it is kept, with BFGS updates from the gradients that come anyway,
as long as the distance to optimality falls fast. Features that turn out to be free later join the
set with a curvature of their own, until the next Hessian tells it. While the set would be larger
than `MOST`, the first age goes on.

The penalty must be a sum over coefficients, so that some of them can be solved for alone.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from proxfl.core import Regulariser
from proxfl.losses import features_of
from proxfl.points import Point, dot, norm, size, zeros_like
from proxfl.pytree import pytree
from proxfl.train.drivers.adaptive import choose
from proxfl.train.drivers.driver import Record
from proxfl.train.drivers.endless import Trend, first_trend, followed
from proxfl.train.drivers.model_step import BENT, Bent, accelerated, diagonal, minimise
from proxfl.train.drivers.newton import (
    FORCING,
    ByNewton,
    Known,
    Step,
    Totals,
    acceptable,
    objective,
    optimality_of,
    rounding,
    shorter_length,
    totals_of,
)
from proxfl.train.tasks import part_way

MOST = 2560  # coefficients of a set, whose linear systems take the cube of that
LADDER = 64  # systems have a multiple of this as their size, so that few programs are compiled
MEMORY = 10  # pairs of moves and differences of gradients
NEAR = 0.02  # optimality from which on Hessians are worth their bytes
# By these factors, the first with which a set has room: slopes that free what is in it.
STEEPER = (1.05, 1.01, 1.0)
ROOM = 7 / 8  # of a set, that its first Hessian may fill
FAST = 0.3  # of the distance that a step may leave if its Hessian is to be kept
LOOSE = 0.05  # of the distance, that a step by gradients alone leaves undone
LONGEST = 500  # gradient steps on a model that is made of gradients

Vector = Float[Array, " coordinates"]


class Memory(NamedTuple):
    """The last moves and the differences of gradients over them, the newest last."""

    moves: Float[Array, "pairs coordinates"]
    turns: Float[Array, "pairs coordinates"]

    def after(self, move: Vector, turn: Vector) -> "Memory":
        push = lambda held, new: jnp.concatenate([held[1:], new[None]])
        return Memory(push(self.moves, move), push(self.turns, turn))


class WorkingSet(NamedTuple):
    """Features by number, and the Hessian on their coefficients; the first `held` count."""

    members: Int[Array, " most"]
    held: Any
    hessian: Float[Array, "coordinates coordinates"]


class State(NamedTuple):
    """Everything the server knows; a pytree, so that saving it is the checkpoint.

    What has the name of a field of `newton.State` means the same; `known` holds no Hessian.
    """

    known: Known
    step: Step
    memory: Memory
    set: WorkingSet
    asks: Int[Array, " most"]  # features whose Hessian to ask for along with the next point
    asked: Any  # so many of them
    distance: Any
    scale: Any
    start: Any
    idle: Any
    trend: Trend
    round: Any
    counted: Any


class NewtonOnSets(ByNewton):
    """Proximal Newton steps on some coefficients of many."""

    def begin(self) -> State:
        x0, number = self.problem.x0, lambda v: jnp.asarray(v, jnp.float64)
        most, outputs = sizes(x0)
        none = jnp.zeros(most, jnp.int32)
        square = jnp.zeros((most * outputs, most * outputs), jnp.float64)
        empty, pairs = jnp.zeros((0, 0), jnp.float64), jnp.zeros((MEMORY, size(x0)), jnp.float64)
        values = jnp.zeros(len(self.weights), jnp.float64)
        return State(
            known=Known(x0, number(np.inf), zeros_like(x0), empty, values),
            step=Step(x0, number(1.0), number(0.0)),
            memory=Memory(pairs, pairs),
            set=WorkingSet(none, jnp.asarray(0), square),
            asks=none,
            asked=jnp.asarray(0),
            distance=number(np.inf),
            scale=number(0.0),
            start=number(0.0),
            idle=jnp.asarray(0),
            trend=first_trend(x0),
            round=jnp.asarray(0),
            counted=jnp.asarray(0),
        )

    def one_round(self, state: State) -> tuple[State, Record]:
        g, features = self.problem.g, state.asks[: int(state.asked)]
        totals = totals_of(self, state, features)
        after, seen = learn(g, state, totals._replace(triangle=()))
        if seen.counted:
            held = known_on(after, state, features, totals)
            after = onwards(g, after._replace(set=held), fast(state, after))
        return after, Record(*(np.asarray(value).item() for value in seen))


def sizes(x: Point) -> tuple[int, int]:
    """The most features that a set may have, and the coefficients of each."""
    outputs = size(x) // features_of(x)
    return min(MOST // outputs, features_of(x)), outputs


def fast(before: State, after: State) -> bool:
    return float(after.distance) <= FAST * float(before.distance)


@jax.jit
def learn(g: Regulariser, state: State, totals: Totals) -> tuple[State, Record]:
    """The state after an exchange, and what it showed; the next step is that of before, shorter."""
    before, step = state.known, state.step
    x = part_way(before.x, step.u, step.length)
    now = Known(x, totals.loss, totals.gradient, before.hessian, totals.values)
    first, distance = jnp.isinf(before.loss), g.distance(x, totals.gradient)
    counted = totals.finite & (first | acceptable(g, state, now, distance))
    known = choose(counted, now, before)
    scale = jnp.where(first, norm(totals.gradient), state.scale)
    move, turn = (
        ravel_pytree(a - b)[0] for a, b in ((x, before.x), (totals.gradient, before.gradient))
    )
    curved = counted & ~first & (move @ turn > 0)
    progress = counted & (first | (distance <= 0.5 * state.distance))
    fell = objective(g, known) < objective(g, before) - rounding(g, before)
    after = State(
        known=known,
        step=step._replace(length=shorter_length(g, state, totals.shorter)),
        memory=choose(curved, state.memory.after(move, turn), state.memory),
        set=state.set,
        asks=state.asks,
        asked=jnp.where(counted | (state.set.held > 0), state.asked, 0),
        distance=jnp.where(counted, distance, state.distance),
        scale=scale,
        start=jnp.where(first, objective(g, now), state.start),
        idle=jnp.where(progress | (counted & fell), 0, state.idle + 1),
        trend=choose(counted, followed(state.trend, x, distance), state.trend),
        round=state.round + 1,
        counted=jnp.where(counted, state.round + 1, state.counted),
    )
    optimality = distance / jnp.where(scale > 0, scale, 1.0)
    return after, Record(after.round, objective(g, now), optimality, step.length, counted)


def known_on(after: State, before: State, features: Any, totals: Totals) -> WorkingSet:
    """The set as it is at a point that counts: with the Hessian just told, or the one before.

    Without a new one the old is made to fit the last move.
    """
    held, (most, outputs) = after.set, sizes(after.known.x)
    count = len(features)
    if count:
        upper = np.zeros(held.hessian.shape)
        rows, columns = np.triu_indices(count * outputs)
        upper[rows, columns] = np.asarray(totals.triangle)
        full = upper + np.triu(upper, 1).T
        members = jnp.zeros(most, jnp.int32).at[:count].set(features)
        return WorkingSet(members, jnp.asarray(count), jnp.asarray(full))
    if not int(held.held):
        return held
    move, turn = after.memory.moves[-1], after.memory.turns[-1]
    where = places(held, after.known.x)
    return held._replace(hessian=fitted(held.hessian, part(move, where), part(turn, where)))


def places(held: WorkingSet, x: Point) -> Int[Array, " coordinates"]:
    """Where the coefficients of a set are in a flattened point; beyond its end, if they are none.

    So many that few programs are compiled.
    """
    count, (_, outputs) = int(held.held), sizes(x)
    each = np.asarray(held.members[:count])[:, None] * outputs + np.arange(outputs)[None, :]
    padded = min(-(-each.size // LADDER) * LADDER, len(held.hessian))
    found = np.full(padded, size(x), np.int32)
    found[: each.size] = each.ravel()
    return jnp.asarray(found)


def part(v: Vector, where: Int[Array, " some"]) -> Float[Array, " some"]:
    return v.at[where].get(mode="fill", fill_value=0.0)


@jax.jit
def fitted(hessian: Any, move: Any, turn: Any) -> Any:
    """A BFGS update: the nearest matrix that maps the move to the turn."""
    count = len(move)
    some = hessian[:count, :count]
    pushed, along = some @ move, move @ turn
    bent = jnp.outer(turn, turn) / along - jnp.outer(pushed, pushed) / (move @ pushed)
    sound = (along > 0) & jnp.isfinite(bent).all()
    return hessian.at[:count, :count].add(jnp.where(sound, bent, 0.0))


def onwards(g: Regulariser, state: State, fast: bool) -> State:
    """The state with its next step, and with the features whose Hessian is to be asked for."""
    known, most = state.known, sizes(state.known.x)[0]
    held = joined(g, state)
    if int(held.held):
        where = places(held, known.x)
        step, slope = by_hessian(g, known, held.hessian, where, state.distance, state.scale)
    else:
        step, slope = by_gradients(g, known, state.memory, state.distance)
    wanted = np.zeros(0, np.int32)
    if not fast if int(held.held) else optimality_of(state) <= NEAR:
        room = most if int(held.held) else ROOM * most  # for those that join later
        now = np.asarray(free(g, known.x, known.gradient, 1.0)).sum()  # they stay on shorter ways
        sets = (np.flatnonzero(np.asarray(free(g, step.u, slope, by))) for by in STEEPER)
        fits = (found for found in sets if max(len(found), now) <= room)
        wanted = next(fits, wanted).astype(np.int32)
    asks = np.zeros(most, np.int32)
    asks[: len(wanted)] = wanted
    return state._replace(
        step=step, set=held, asks=jnp.asarray(asks), asked=jnp.asarray(len(wanted))
    )


def joined(g: Regulariser, state: State) -> WorkingSet:
    """The set with the features that are free outside of it; none, if they are too many."""
    held, (most, outputs) = state.set, sizes(state.known.x)
    count = int(held.held)
    if not count:
        return held
    now = np.flatnonzero(np.asarray(free(g, state.known.x, state.known.gradient, 1.0)))
    new = np.setdiff1d(now, np.asarray(held.members[:count])).astype(np.int32)
    if count + len(new) > most:
        return held._replace(held=jnp.asarray(0))
    members = held.members.at[count : count + len(new)].set(new)
    diagonal = jnp.diagonal(held.hessian)
    usual = 2 * jnp.mean(diagonal[: count * outputs])
    unknown = jnp.arange(len(diagonal)) >= count * outputs
    return WorkingSet(
        members,
        jnp.asarray(count + len(new)),
        jnp.where(unknown[:, None] | unknown[None, :], 0.0, held.hessian)
        + jnp.diag(jnp.where(unknown, usual, 0.0)),
    )


@jax.jit
def free(g: Regulariser, x: Point, slope: Point, steeper: Any) -> Bool[Array, " features"]:
    """Which features a step from x moves, or could, were slopes so much steeper."""
    forward = lambda v: g.prox(v, jnp.ones((), jnp.float64))
    ones = jax.tree.map(jnp.ones_like, x)
    found = jax.jvp(forward, (x - steeper * slope,), (ones,))
    moved, could = (
        ravel_pytree(part)[0].reshape(features_of(x), -1) for part in (found[0] - x, found[1])
    )
    return ((moved != 0) | (could != 0)).any(axis=1)


@pytree
class OnSet(Regulariser):
    """A sum over coordinates as a function of some of them; the others stay where they are."""

    g: Regulariser
    x: Point
    where: Int[Array, " some"]

    def whole(self, v: Any) -> Point:
        flat, as_point = ravel_pytree(self.x)
        return as_point(flat.at[self.where].set(v, mode="drop"))

    def prox(self, x, step):
        return part(ravel_pytree(self.g.prox(self.whole(x), step))[0], self.where)

    def value(self, x):
        return self.g.value(self.whole(x))

    def distance(self, x, grad):
        raise NotImplementedError("only steps are made with it")

    def bound(self, x):
        return self.g.bound(self.x)


@jax.jit
def by_hessian(
    g: Regulariser, known: Known, hessian: Any, where: Any, distance: Any, scale: Any
) -> tuple[Step, Point]:
    """To the least point of the model on a set, and the slope that the model has there."""
    (start, as_point), slope = ravel_pytree(known.x), ravel_pytree(known.gradient)[0]
    hessian = hessian[: len(where), : len(where)]
    top = 1.1 * largest(lambda v: hessian @ v, len(where))
    bent = Bent(hessian + BENT * top * jnp.eye(len(where)), top)
    forcing = FORCING * jnp.minimum(distance / scale, 1.0)
    some = OnSet(g, known.x, where), part(start, where), part(slope, where)
    v, _ = minimise(*some, bent, forcing, diagonal)
    u = as_point(start.at[where].set(v, mode="drop"))
    bend = hessian @ (v - part(start, where))
    return step_to(g, known, u), as_point(slope.at[where].add(bend, mode="drop"))


@jax.jit
def by_gradients(g: Regulariser, known: Known, memory: Memory, distance: Any) -> tuple[Step, Point]:
    """The same on all coefficients, for the model that gradients make."""
    (start, as_point), slope = ravel_pytree(known.x), ravel_pytree(known.gradient)[0]
    times = bfgs(memory)
    top = 1.1 * largest(times, len(start))
    there = lambda u: slope + times(u - start)
    forward = lambda u: ravel_pytree(g.prox(as_point(u - there(u) / top), 1 / top))[0]
    step = accelerated(forward)

    def go_on(carry):
        _, left, turn = carry
        return (turn < LONGEST) & (left > LOOSE * distance)

    def improve(carry):
        (u, ahead, t), _, turn = carry
        after = step(0, (u, ahead, t))
        return after, top * jnp.linalg.norm(after[0] - ahead), turn + 1

    begin = (start, start, jnp.ones(())), jnp.full((), jnp.inf), jnp.asarray(0)
    u = jax.lax.while_loop(go_on, improve, begin)[0][0]
    return step_to(g, known, as_point(u)), as_point(there(u))


def step_to(g: Regulariser, known: Known, u: Point) -> Step:
    promised = dot(known.gradient, u - known.x) + g.value(u) - g.value(known.x)
    return Step(u, jnp.ones_like(promised), promised)


def bfgs(memory: Memory) -> Any:
    """The product with the BFGS matrix of the pairs, from a multiple of the identity."""
    S, Y = memory
    there = (S * S).sum(axis=1) > 0
    newest = S[-1] @ S[-1]
    gamma = jnp.where(there[-1], S[-1] @ Y[-1] / jnp.where(there[-1], newest, 1.0), 1.0)
    products = S @ Y.T
    lower = jnp.tril(products, -1)
    absent = jnp.diag(jnp.where(there, 0.0, 1.0))
    middle = jnp.block(
        [
            [gamma * S @ S.T + absent, lower],
            [lower.T, -jnp.diag(jnp.diagonal(products)) - absent],
        ]
    )
    sides = jnp.concatenate([gamma * S, Y])
    inner = jnp.linalg.inv(middle)
    return lambda v: gamma * v - sides.T @ (inner @ (sides @ v))


def largest(times: Any, count: int) -> Any:
    """The largest eigenvalue of a positive definite matrix, nearly."""
    begin = jnp.cos(jnp.arange(count, dtype=jnp.float64))

    def multiply(_, carry):
        v, _ = carry
        pushed = times(v)
        length = jnp.linalg.norm(pushed)
        return pushed / jnp.maximum(length, jnp.finfo(v.dtype).tiny), length

    first = begin / jnp.linalg.norm(begin), jnp.ones(())
    return jax.lax.fori_loop(0, 50, multiply, first)[1]
