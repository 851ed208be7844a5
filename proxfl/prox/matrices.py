"""Penalties on the singular values of a matrix."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.core import Regulariser
from proxfl.points import Scalar, norm
from proxfl.pytree import non_negative, pytree


@pytree
class Nuclear(Regulariser):
    """The nuclear norm: g(x) = weight times the sum of the singular values of the matrix x."""

    weight: Scalar = non_negative()

    @property
    def is_sublinear(self) -> bool:
        return True

    def value(self, x: Float[Array, "rows cols"]) -> Scalar:
        return self.weight * jnp.sum(jnp.linalg.svd(x, compute_uv=False))

    def prox(self, x: Float[Array, "rows cols"], step: Scalar) -> Float[Array, "rows cols"]:
        u, s, vt = jnp.linalg.svd(x, full_matrices=False)
        most = step * self.weight
        made = lambda values: (u * values[None, :]) @ vt
        # A short step takes away what is small, so that each number is rounded by its own size. A
        # long one makes what is left, so that singular values of 0 are that to its own rounding.
        taken = x - made(jnp.minimum(s, most))
        return jnp.where(32 * most < s[0], taken, made(jnp.maximum(s - most, 0.0)))

    def distance(self, x: Float[Array, "rows cols"], grad: Float[Array, "rows cols"]) -> Scalar:
        # dg(x) = weight (u v' + w), |w| <= 1 in spectral norm, w orthogonal to u and v: the part
        # of -grad that shares rows or columns with x has one target, the other part a ball.
        u, s, vt = jnp.linalg.svd(x, full_matrices=False)
        noise = float(jnp.finfo(x.dtype).eps) * max(x.shape) * s[0]
        present = jnp.where(s > noise, jnp.ones_like(s), 0.0)
        u, vt = u * present[None, :], vt * present[:, None]
        rest = -grad + u @ (u.T @ grad)
        rest = rest - (rest @ vt.T) @ vt
        inside = -grad - rest - self.weight * (u @ vt)
        over = jnp.maximum(jnp.linalg.svd(rest, compute_uv=False) - self.weight, 0.0)
        return jnp.hypot(norm(inside), norm(over))

    def bound(self, x: Float[Array, "rows cols"]) -> Scalar:
        return self.weight * math.sqrt(min(x.shape))
