"""A loss whose rows pull no harder than they may: no row's gradient is longer than `longest`.

The gradient of a linear model in one row is its slope times its features, so a row whose gradient
would be too long counts for less. What is clipped is the gradient, not the loss: where rows are
clipped, the sum is the gradient of no function. A row whose gradient is not finite does not count,
so that no answer fails, or is not a number, for what one row holds.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.losses.base import Loss
from proxfl.losses.linear import scores_at
from proxfl.points import Point, Tree


@dataclasses.dataclass(frozen=True)
class Clipped(Loss):
    """A loss of a linear model that is a sum over rows, with the gradient of each row clipped."""

    loss: Any
    longest: float
    couples_rows = False
    ignores_padding = True
    has_survival = False

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return self.loss.curvature

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.loss.convex

    def complaint(self, x, examples):
        return self.loss.complaint(x, examples)

    def total(self, x, batch, weights):
        return self.loss.total(x, batch, weights)

    def gradient(self, x, batch, weights):
        lengths = self.lengths(x, batch)
        counts = self.longest / jnp.maximum(lengths, self.longest)
        return self.loss.gradient(x, batch, jnp.where(jnp.isfinite(lengths), counts * weights, 0.0))

    def lengths(self, x: Point, batch: Any) -> Float[Array, " rows"]:
        """How long the gradient of each row is, or longer, where squares of features vanish."""
        A, z = batch[0], scores_at(x, batch)
        pull = self.loss.slopes(z, batch[1], jnp.ones(z.shape[0], z.dtype))
        squares = A**2 @ jnp.ones(A.shape[1], z.dtype) + (1.0 if isinstance(x, Tree) else 0.0)
        squares += A.shape[1] * jnp.finfo(z.dtype).tiny
        return jnp.sqrt(squares) * jax.vmap(jnp.linalg.norm)(pull.reshape(z.shape[0], -1))
