"""Acceleration of Algorithm 1's server step at the price of a few scalars per round.

One round of Algorithm 1 maps the pre-proximal model x to T(x) = prox(x) - eta_round * v, an inexact
proximal gradient step. The next round need not start from T(x): any combination sum_j a_j T(x_j) of
past results with weights that sum to one has the same fixed points. The server chooses the weights,

    anderson   those which make |sum_j a_j (T(x_j) - x_j)| least (Mai and Johansson 2020),
    nesterov   T(x) + b (T(x) - T(x_prev)) with growing b, restarted when it points uphill or when
               residuals turn round: T oversteps then, and b above 0 would make that grow,

and broadcasts T(x) as before, beside the weights. Clients hold the last few broadcasts and form the
start themselves, so still one vector goes down. The correction is learnt from T(x), unmixed.

Safeguard: a mixed step is undone when its residual |T(x) - x| is more than twice the best since the
last that was. The next step is then the plain one from before it, and the pause before mixing again
doubles, to halve only after a run of successes. So where mixing does not help, about log2(rounds)
rounds start from a mixed point in vain; with tau > 1 each also leaves corrections learnt there,
which take some more rounds to mend. The best of all rounds would be no measure: Anderson's weights
also make steps converge with which T diverges, and what plain steps then lose in a pause, or at the
optimum by rounding, no mixed step could regain at once. Once the residual is rounding, nothing is
mixed: its directions mean nothing, and of residuals that are zero no weights can be made.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from proxfl.algorithms.decoupled import Decoupled, Memory
from proxfl.algorithms.ring import Ring, gram, mix, push, ring
from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, dot, dtype, norm
from proxfl.pytree import choice, count, pytree

ROUNDING = 100.0  # residuals shorter than so many units in the last place of the result are noise
TOLERATED = 2.0  # how much the residual of a mixed step may exceed the best one


class Past(NamedTuple):
    """Results T(x_j) and residuals T(x_j) - x_j of past rounds, and which of them may be mixed."""

    results: Ring
    residuals: Ring
    usable: Bool[Array, " memory"]


class Guard(NamedTuple):
    """The state of the safeguard; all fields but `mixed` are numbers of the point's type."""

    mixed: Bool[Array, ""]  # whether this round started from a mixed point
    best: Scalar  # the smallest residual since the last failure
    pause: Scalar  # plain steps still to take before mixing again
    penalty: Scalar  # the pause after the next failure
    wins: Scalar  # mixed steps kept since the penalty last changed
    streak: Scalar  # steps kept since the last failure or restart


class Server(NamedTuple):
    x: Point  # where this round starts, before the prox: the past results, mixed by `weights`
    weights: Float[Array, " memory"]
    past: Past
    guard: Guard


class Down(NamedTuple):
    result: Point
    weights: Float[Array, " memory"]


class Client(NamedTuple):
    memory: Memory
    results: Ring


@pytree
class Accelerated(Wrapper):
    """Algorithm 1 from mixed starting points."""

    inner: Decoupled
    memory: int = count(default=10, least=2)
    how: str = choice("nesterov", default="anderson")

    @property
    def eta_round(self):
        return self.inner.eta_round

    def init(self, g, x0):
        x, memory = self.inner.init(g, x0)
        past, guard = fresh(x, self.memory)
        server = Server(x, age(0, self.memory, x0), past, guard)
        return server, Client(memory, ring(x0, self.memory))

    def broadcast(self, g, server):
        newest = mix(server.past.results, age(0, self.memory, server.x))
        return Down(newest, server.weights)

    def correction(self, state: Client, down: Down) -> Point:
        return self.inner.correction(state.memory, down.result)

    def start(self, state: Client) -> Point:
        """The model from which a client started in the round that ended in this state."""
        return self.inner.start(state.memory)

    def client(self, f: Objective, g: Regulariser, state: Client, down: Down, key):
        results = push(state.results, down.result)
        x = mix(results, down.weights)
        # The inner client learns its correction from start - down, which must be that of the
        # unmixed result: moving both by the same amount keeps the difference.
        moved = Memory(state.memory.start + (x - down.result), state.memory.mean_grad)
        reply = self.inner.client(f, g, moved, x, key)
        return Reply(Client(reply.state, results), reply.up, reply.info)

    def server(self, g, server: Server, received: Received):
        result = self.inner.server(g, server.x, received)
        weights, past, guard = extrapolate(server.x, result, server.past, server.guard, self.how)
        return Server(mix(past.results, weights), weights, past, guard)

    def output(self, g, server):
        return self.inner.output(g, server.x)

    def mixed(self, server: Server) -> Bool[Array, ""]:
        """Whether this round starts from a mixed point."""
        return server.guard.mixed

    def undo(self, server: Server) -> Server:
        """For a round that never happened: start it from the last result, unmixed, and pause."""
        guard, newest = server.guard, age(0, self.memory, server.x)
        paused = Guard(
            mixed=jnp.zeros_like(guard.mixed),
            best=largest(guard.best),
            pause=guard.penalty,
            penalty=2 * guard.penalty,
            wins=0 * guard.wins,
            streak=0 * guard.streak,
        )
        return Server(mix(server.past.results, newest), newest, server.past, paused)


def age(j: int, memory: int, like: Point) -> Float[Array, " memory"]:
    """The weights that pick the result of j rounds ago."""
    return (jnp.arange(memory) == j).astype(dtype(like))


def fresh(x: Point, memory: int) -> tuple[Past, Guard]:
    """Nothing to mix yet, and nothing to compare with."""
    empty, zero = ring(x, memory), jnp.zeros((), dtype(x))
    past = Past(push(empty, x), empty, jnp.zeros(memory, bool))
    return past, Guard(jnp.array(False), largest(zero), zero, zero + 1, zero, zero)


def largest(like: Scalar) -> Scalar:
    """A number that no residual is above."""
    return jnp.full((), jnp.finfo(dtype(like)).max, dtype(like))


def extrapolate(
    x: Point, result: Point, past: Past, guard: Guard, how: str
) -> tuple[Float[Array, " memory"], Past, Guard]:
    """The weights of the next start, once the round from x gave `result`."""
    residual, memory = result - x, past.usable.shape[0]
    noise = ROUNDING * jnp.finfo(dtype(x)).eps * norm(result)
    keep, guard = judge(guard, jnp.maximum(norm(residual), noise), memory)
    past = Past(
        push(past.results, result),
        push(past.residuals, residual),
        jnp.roll(past.usable & keep, 1).at[0].set(keep),
    )
    plain = jnp.where(keep, age(0, memory, x), age(1, memory, x))
    if how == "anderson":
        wanted, streak = anderson(past), guard.streak
    else:
        wanted, streak = nesterov(past, guard.streak)
    mixed = keep & (guard.pause == 0) & (streak > 1) & (norm(residual) > noise)
    guard = guard._replace(mixed=mixed, streak=streak)
    return jnp.where(mixed, wanted, plain), past, guard


def judge(guard: Guard, residual: Scalar, memory: int) -> tuple[Bool[Array, ""], Guard]:
    """Whether to keep the step just made, and the safeguard after it.

    A residual that is rounding counts as the most that rounding can be.
    """
    keep = ~guard.mixed | (residual <= TOLERATED * guard.best)
    wins = jnp.where(keep, guard.wins + jnp.where(guard.mixed, 1.0, 0.0), 0)
    enough = wins >= memory
    relaxed = jnp.where(enough, jnp.maximum(guard.penalty / 2, 1), guard.penalty)
    return keep, Guard(
        mixed=guard.mixed,
        best=jnp.where(keep, jnp.minimum(guard.best, residual), largest(guard.best)),
        pause=jnp.where(keep, jnp.maximum(guard.pause - 1, 0), guard.penalty),
        penalty=jnp.where(keep, relaxed, 2 * guard.penalty),
        wins=jnp.where(enough, 0, wins),
        streak=jnp.where(keep, guard.streak + 1, 0),
    )


def anderson(past: Past) -> Float[Array, " memory"]:
    """Weights that sum to one and make the mixed residual least."""
    products = gram(past.residuals)
    size = jnp.sqrt(jnp.diagonal(products))
    inverse = jnp.where(past.usable & (size > 0), 1 / jnp.where(size > 0, size, 1), 0)
    scaled = products * jnp.outer(inverse, inverse)
    # A little more than the rounding in the products; it also settles the slots not in use.
    ridge = 4e3 * jnp.finfo(size.dtype).eps
    solved = jnp.linalg.solve(scaled + ridge * jnp.eye(*scaled.shape, dtype=size.dtype), inverse)
    weights = solved * inverse
    total = weights.sum()
    return weights / jnp.where(total == 0, 1, total)


def nesterov(past: Past, streak: Scalar) -> tuple[Float[Array, " memory"], Scalar]:
    """T + b (T - T_prev) with b = k / (k + 3) in the k-th step, and the steps so far."""
    newest, previous = (age(j, past.usable.shape[0], past.residuals) for j in (0, 1))
    now, before = mix(past.residuals, newest), mix(past.residuals, previous)
    uphill = dot(now, mix(past.results, newest - previous)) < 0
    streak = jnp.where(uphill | (dot(now, before) < 0), 1, streak)
    k = jnp.maximum(streak - 1, 0)
    return newest + k / (k + 3) * (newest - previous), streak
