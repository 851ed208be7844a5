"""Penalties on the singular values of a matrix."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.core import Regulariser
from proxfl.points import Scalar, norm
from proxfl.pytree import non_negative, pytree

# On a CPU, JAX hands the matrices of a batch to the threads of its program, and waits for them on
# one of these threads. Two batches at once, such as two layers of many clients, may so wait for
# each other forever: a batch goes there one matrix after the other.
decomposed_at_once = partial(jnp.linalg.svd, full_matrices=False)
decomposed_in_turn = jax.custom_batching.sequential_vmap(decomposed_at_once)


@jax.custom_jvp
def decomposed(x: Float[Array, "rows cols"]) -> tuple[Array, Array, Array]:
    """Left vectors, singular values from the largest down, and right vectors as rows."""
    return jax.lax.platform_dependent(x, cpu=decomposed_in_turn, default=decomposed_at_once)


@decomposed.defjvp
def decomposed_jvp(primals: Any, tangents: Any) -> Any:
    return jax.jvp(decomposed_at_once, primals, tangents)


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
        u, s, vt = decomposed(x)
        most = step * self.weight
        made = lambda values: (u * values[None, :]) @ vt
        # A short step takes away what is small, so that each number is rounded by its own size. A
        # long one makes what is left, so that singular values of 0 are that to its own rounding.
        taken = x - made(jnp.minimum(s, most))
        return jnp.where(32 * most < s[0], taken, made(jnp.maximum(s - most, 0.0)))

    def distance(self, x: Float[Array, "rows cols"], grad: Float[Array, "rows cols"]) -> Scalar:
        # dg(x) = weight (u v' + w), |w| <= 1 in spectral norm, w orthogonal to u and v: the part
        # of -grad that shares rows or columns with x has one target, the other part a ball.
        u, s, vt = decomposed(x)
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
