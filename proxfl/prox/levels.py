"""The one scalar equation behind simplices, l1 balls and largest entries."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from proxfl.points import Scalar


def level(
    v: Float[Array, "*shape"], total: Scalar, free: Bool[Array, "*shape"] | None = None
) -> Scalar:
    """The q that solves sum_free (v - q) + sum_others max(v - q, 0) = total.

    The left side is the largest of its linear pieces, one for each number of others above q, so q
    is the largest of their roots. Entries of -inf take no part; without a `free` entry and with
    total 0, where every q from max v on is a solution, it is max v.
    """
    top = jnp.max(v)
    # Measured from the top, large common parts of v cancel before they are summed.
    v = jnp.ravel(v - top)
    free = jnp.zeros(v.shape, bool) if free is None else jnp.ravel(free)
    others = -jnp.sort(jnp.where(free, jnp.inf, -v))
    above = jnp.arange(v.size + 1, dtype=v.dtype) + jnp.sum(free, dtype=v.dtype)
    sums = jnp.cumsum(jnp.append(jnp.sum(jnp.where(free, v, 0.0)), others))
    roots = jnp.where(above > 0, (sums - total) / jnp.maximum(above, 1.0), -jnp.inf)
    return top + jnp.max(roots)


def onto_simplex(v: Float[Array, "*shape"], radius: Scalar) -> Float[Array, "*shape"]:
    """The point nearest to v among those with entries >= 0 that sum to radius > 0."""
    v = v - jnp.max(v)
    u = jnp.maximum(v - level(v, radius), 0.0)
    # Each entry carries a rounding error of the radius; together they would leave the simplex.
    return u * (radius / jnp.sum(u))
