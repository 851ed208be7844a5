"""A model of the loss that is made of gradients alone, for models of many coefficients.

Its Hessian is the BFGS matrix of the last pairs of moves and differences of gradients (Byrd,
Nocedal, Schnabel 1994), in all coefficients. Accelerated proximal gradient steps minimise it with
the penalty.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from proxfl.core import Regulariser
from proxfl.points import Point, size
from proxfl.train.drivers.judged import Known, Step, step_to
from proxfl.train.drivers.model_step import Vector, accelerated

PAIRS = 10
LOOSE = 0.05  # of the distance, that a step leaves undone
LONGEST = 500  # gradient steps


class Memory(NamedTuple):
    """The last moves and the differences of gradients over them, the newest last."""

    moves: Float[Array, "pairs coordinates"]
    turns: Float[Array, "pairs coordinates"]

    def after(self, move: Vector, turn: Vector) -> "Memory":
        push = lambda held, new: jnp.concatenate([held[1:], new[None]])
        return Memory(push(self.moves, move), push(self.turns, turn))


def no_pairs(x: Point) -> Memory:
    nothing = jnp.zeros((PAIRS, size(x)), jnp.float64)
    return Memory(nothing, nothing)


@jax.jit
def by_gradients(g: Regulariser, known: Known, memory: Memory, distance: Any) -> tuple[Step, Point]:
    """To the least point of the model, and the slope that the model has there."""
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
