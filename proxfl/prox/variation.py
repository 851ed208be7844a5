"""Total variation of a sequence, with an exact prox in linear time (Johnson 2013).

The prox minimises |u - x|^2 / 2 + sum_k w_k |u_{k+1} - u_k|. Let m_k(b) be the least cost of
the first k terms when u_k = b. Its derivative is piecewise linear and increasing, and

    m_{k+1}'(b) = b - x_{k+1} + clip(m_k'(b), -w_k, w_k).

Where the clip begins and ends, low_k and high_k, is all the way back needs:
u_k = clip(u_{k+1}, low_k, high_k).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from proxfl.points import Scalar, norm
from proxfl.prox.directional import Directional, Weight, cast
from proxfl.pytree import non_negative, pytree


class Sweep(NamedTuple):
    """On the way through term k: the bends of m_k', a deque whose rows first to last are alive.

    Passing a bend (at, slope, offset) from left to right adds slope * b + offset to m_k'(b);
    `left` and `right` are the slope and offset of the pieces beyond the outermost bends.
    """

    k: Int[Array, ""]
    bends: Float[Array, "room 3"]
    first: Int[Array, ""]
    last: Int[Array, ""]
    outermost: Float[Array, "2 3"]
    left: Float[Array, "2"]
    right: Float[Array, "2"]
    ends: Float[Array, "n 2"]


def turn(sweep: Sweep, x: Float[Array, " n"], weights: Float[Array, " n"]) -> Sweep:
    """Pass the outermost bends while they lie beyond the clip; when none does, close term k.

    A bend passed is a bend forgotten and each term adds two, so a sweep takes at most 3n turns.
    The loop is flat and reads the deque only after writing it: else the compiler copies the
    deque at every turn, and the time is quadratic.
    """
    k, bends, first, last, (head, tail), left, right, ends = sweep
    weight = weights[k]
    pass_first = (first <= last) & (left[0] * head[0] + left[1] < -weight)
    alive = jnp.where(pass_first, first < last, first <= last)
    pass_last = alive & (right[0] * tail[0] + right[1] > weight)
    closed = ~(pass_first | pass_last)

    low = (-weight - left[1]) / left[0]
    # Equal in exact arithmetic when the weight is 0; rounding must not swap them.
    high = jnp.maximum((weight - right[1]) / right[0], low)
    spare, one = bends.shape[0] - 1, jnp.ones_like(weight)
    before = jnp.stack([low, left[0], left[1] + weight])
    after = jnp.stack([high, -right[0], weight - right[1]])
    bends = bends.at[jnp.where(closed, first - 1, spare)].set(before)
    bends = bends.at[jnp.where(closed, last + 1, spare)].set(after)
    first = jnp.where(closed, first - 1, jnp.where(pass_first, first + 1, first))
    last = jnp.where(closed, last + 1, jnp.where(pass_last, last - 1, last))
    shorter_left = jnp.where(pass_first, left + head[1:], left)
    shorter_right = jnp.where(pass_last, right - tail[1:], right)
    return Sweep(
        k=jnp.where(closed, k + 1, k),
        bends=bends,
        first=first,
        last=last,
        outermost=jnp.stack([bends[first], bends[last]]),
        left=jnp.where(closed, jnp.stack([one, -weight - x[k + 1]]), shorter_left),
        right=jnp.where(closed, jnp.stack([one, weight - x[k + 1]]), shorter_right),
        ends=ends.at[k].set(jnp.stack([low, high])),
    )


def smooth(x: Float[Array, " n"], weights: Float[Array, " n-1"]) -> Float[Array, " n"]:
    """The minimiser of |u - x|^2 / 2 + sum_k weights_k |u_{k+1} - u_k|."""
    n = x.size
    # A last weight of 0 makes low_n the root of m_n', which is u_n.
    weights = jnp.append(weights, jnp.zeros((1,), x.dtype))
    outer = jnp.stack([jnp.ones_like(x[0]), -x[0]])
    bends, ends = jnp.zeros((2 * n + 1, 3), x.dtype), jnp.zeros((n, 2), x.dtype)
    k, first, last = jnp.asarray(0), jnp.asarray(n), jnp.asarray(n - 1)
    start = Sweep(k, bends, first, last, bends[:2], outer, outer, ends)
    sweep = jax.lax.while_loop(lambda s: s.k < n, lambda s: turn(s, x, weights), start)

    def back(u, ends):
        u = jnp.clip(u, ends[0], ends[1])
        return u, u

    return jax.lax.scan(back, sweep.ends[-1, 0], sweep.ends, reverse=True)[1]


@pytree
class TotalVariation(Directional):
    """Fused steps: g(x) = sum_k weight_k |x_{k+1} - x_k|, one weight or one for each step."""

    weight: Weight = non_negative()

    def value(self, x: Float[Array, " n"]) -> Scalar:
        return jnp.sum(cast(self.weight, x) * jnp.abs(jnp.diff(x)))

    def prox(self, x: Float[Array, " n"], step: Scalar) -> Float[Array, " n"]:
        return smooth(x, jnp.full_like(x[1:], step * cast(self.weight, x)))

    def derivative(self, x: Float[Array, " n"]) -> tuple[Float[Array, " n"], "TotalVariation"]:
        jumps, end = jnp.diff(x), jnp.zeros((1,), x.dtype)
        weight = cast(self.weight, x)
        pull, flat = weight * jnp.sign(jumps), jnp.where(jumps == 0, weight, 0.0)
        return jnp.append(end, pull) - jnp.append(pull, end), TotalVariation(flat)

    def bound(self, x: Float[Array, " n"]) -> Scalar:
        """Exact: at a zigzag both neighbours pull each entry the same way."""
        pull, end = jnp.full_like(x[1:], self.weight), jnp.zeros((1,), x.dtype)
        return norm(jnp.append(end, pull) + jnp.append(pull, end))
