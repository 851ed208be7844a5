"""A ring keeps the last few points, the newest first."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.points import Point

Ring = Any  # a point whose leaves have one more axis, the first, over age


def ring(x: Point, length: int) -> Ring:
    """A ring of `length` copies of zero, shaped to hold points like x."""
    return jax.tree.map(lambda a: jnp.zeros((length, *a.shape), a.dtype), x)


def push(points: Ring, x: Point) -> Ring:
    """x becomes the newest; the oldest is forgotten."""
    return jax.tree.map(lambda past, new: jnp.roll(past, 1, axis=0).at[0].set(new), points, x)


def mix(points: Ring, weights: Float[Array, " length"]) -> Point:
    """The weighted sum of the points."""
    return jax.tree.map(lambda past: jnp.tensordot(weights, past, axes=1), points)


def gram(points: Ring) -> Float[Array, "length length"]:
    """All inner products."""
    flat = [past.reshape(past.shape[0], -1) for past in jax.tree.leaves(points)]
    return jnp.sum(jnp.stack([a @ a.T for a in flat]), axis=0)
