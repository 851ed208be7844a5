"""Newton's method for many coefficients: Hessians on a working set, and gradients elsewhere.

One round is one exchange, as in `newton.py`: the loss and the full gradient at a point, and the
losses at shorter ways. The model of the loss has two ages. At first it is made of gradients alone,
in all coefficients (`from_gradients.py`). That finds most of what is not zero.

Once that is near, sites tell the Hessian along with a point: on the features that are free there by
the model, and on those that a somewhat steeper slope would free; the penalty holds all others where
they are. A Hessian is large: the larger it is, the nearer must be what it is asked for; and the
longer it is kept, with BFGS updates from the gradients that come anyway, while the distance to
optimality falls fast.
Features that turn out to be free later join the set with a curvature of their own, until the next
Hessian tells it, which is asked for at once. While the set would be larger than `MOST`, the first
age goes on.

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
from proxfl.points import Point, size
from proxfl.pytree import pytree
from proxfl.train.drivers.adaptive import choose
from proxfl.train.drivers.driver import Record
from proxfl.train.drivers.endless import Trend
from proxfl.train.drivers.from_gradients import Memory, by_gradients, largest, no_pairs
from proxfl.train.drivers.judged import (
    Known,
    Step,
    Totals,
    judged,
    nothing_known,
    optimality_of,
    shorter_length,
    step_to,
)
from proxfl.train.drivers.model_step import BENT, Bent, Vector, diagonal, minimise
from proxfl.train.drivers.newton import FORCING, ByNewton, totals_of

MOST = 2560  # coefficients of a set, whose linear systems take the cube of that
LADDER = 64  # systems have a multiple of this as their size, so that few programs are compiled
NEAR = 2.0  # gradients, that the first Hessian may be as large as, times the optimality
# By these factors, the first with which a set has room: slopes that free what is in it.
STEEPER = (1.05, 1.01, 1.0)
ROOM = 7 / 8  # of a set, that its first Hessian may fill
# Of the distance, by how many gradients a Hessian is as large as: what a step may leave, for the
# Hessian to be kept.
FAST = 1e-3


class WorkingSet(NamedTuple):
    """Features by number, and the Hessian on their coefficients; the first `held` count."""

    members: Int[Array, " most"]
    held: Any
    hessian: Float[Array, "coordinates coordinates"]


class State(NamedTuple):
    """Everything the server knows; a pytree, so that saving it is the checkpoint.

    What has the name of a field of `newton.Judged` is that; `known` holds no Hessian.
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
        x0 = self.problem.x0
        most, outputs = sizes(x0)
        none = jnp.zeros(most, jnp.int32)
        square = jnp.zeros((most * outputs, most * outputs), jnp.float64)
        nothing, step = nothing_known(x0, len(self.weights), 0)
        return State(
            **nothing._asdict(),
            step=step,
            memory=no_pairs(x0),
            set=WorkingSet(none, jnp.asarray(0), square),
            asks=none,
            asked=jnp.asarray(0),
        )

    def one_round(self, state: State) -> tuple[State, Record]:
        g, features = self.problem.g, state.asks[: int(state.asked)]
        totals = totals_of(self, state, features)
        after, seen = learn(g, state, totals._replace(triangle=()))
        if seen.counted:
            held = known_on(after, state, features, totals)
            left = float(after.distance) / float(state.distance)
            after = onwards(g, after._replace(set=held), left)
        return after, Record(*(np.asarray(value).item() for value in seen))


def sizes(x: Point) -> tuple[int, int]:
    """The most features that a set may have, and the coefficients of each."""
    outputs = size(x) // features_of(x)
    return min(MOST // outputs, features_of(x)), outputs


@jax.jit
def learn(g: Regulariser, state: State, totals: Totals) -> tuple[State, Record]:
    """The state after an exchange, and what it showed; the next step is that of before, shorter."""
    before = state.known
    after, seen = judged(g, state, totals, before.hessian)
    now = after.known
    move, turn = (
        ravel_pytree(a - b)[0] for a, b in ((now.x, before.x), (now.gradient, before.gradient))
    )
    curved = seen.counted & ~jnp.isinf(before.loss) & (move @ turn > 0)
    held = State(
        **after._asdict(),
        step=state.step._replace(length=shorter_length(g, state, totals.shorter)),
        memory=choose(curved, state.memory.after(move, turn), state.memory),
        set=state.set,
        asks=state.asks,
        asked=jnp.where(seen.counted | (state.set.held > 0), state.asked, 0),
    )
    return held, seen


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


def onwards(g: Regulariser, state: State, left: float) -> State:
    """The state with its next step, and with the features whose Hessian is to be asked for.

    The last step left so much of the distance to optimality.
    """
    known, held, most = state.known, joined(g, state), sizes(state.known.x)[0]
    if int(held.held):
        where = places(held, known.x)
        step, slope = by_hessian(g, known, held.hessian, where, state.distance, state.scale)
        joins = int(held.held) > int(state.set.held)
        due = lambda count: joins or left > FAST * in_gradients(known.x, int(state.set.held))
        room = most
    else:
        step, slope = by_gradients(g, known, state.memory, state.distance)
        due = lambda count: optimality_of(state) * in_gradients(known.x, count) <= NEAR
        room = ROOM * most  # for those that join later
    now = np.asarray(free(g, known.x, known.gradient, 1.0)).sum()  # they stay on shorter ways
    sets = (np.flatnonzero(np.asarray(free(g, step.u, slope, by))) for by in STEEPER)
    wanted = next((found for found in sets if max(len(found), now) <= room), ())
    wanted = wanted if due(len(wanted)) else ()
    asks = np.zeros(most, np.int32)
    asks[: len(wanted)] = wanted
    asked = jnp.asarray(len(wanted))
    return state._replace(step=step, set=held, asks=jnp.asarray(asks), asked=asked)


def in_gradients(x: Point, features: int) -> float:
    """How many gradients a Hessian on so many features is as large as."""
    count = features * sizes(x)[1]
    return count * (count + 1) / 2 / size(x)


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
