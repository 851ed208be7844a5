"""Folded concave penalties: like l1 near 0, flat far away, so large entries are not shrunk.

Both are weakly convex, not convex: the prox is single-valued, and given here, only for steps
below `step_limit`. `distance` uses the limiting subdifferential, which at 0 is that of l1.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.points import Scalar
from proxfl.prox.directional import Directional, cast
from proxfl.prox.norms import L1
from proxfl.pytree import non_negative, positive, pytree


@pytree
class MCP(Directional):
    """Minimax concave penalty (Zhang 2010), weakly convex with modulus 1 / gamma.

    g(x) = sum_i weight |x_i| - x_i^2 / (2 gamma) up to |x_i| = gamma weight, constant from there.
    """

    weight: Scalar = non_negative()
    gamma: Scalar = positive(default=3.0)

    def value(self, x: Float[Array, "..."]) -> Scalar:
        size = jnp.minimum(jnp.abs(x), self.gamma * self.weight)
        return jnp.sum(self.weight * size - size * size / (2 * self.gamma))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        near = L1(self.weight).prox(x, step) / (1 - step / self.gamma)
        return jnp.where(jnp.abs(x) <= self.gamma * self.weight, near, x)

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], L1]:
        slope = jnp.maximum(self.weight - jnp.abs(x) / self.gamma, 0.0)
        return slope * jnp.sign(x), L1(jnp.where(x == 0, cast(self.weight, x), 0.0))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return L1(self.weight).bound(x)

    @property
    def step_limit(self) -> Scalar:
        return self.gamma


@pytree
class SCAD(Directional):
    """Smoothly clipped absolute deviation (Fan, Li 2001), weakly convex with modulus 1 / (a - 1).

    g is even with slope weight up to |x_i| = weight, then falling in a line to 0 at a weight.
    """

    weight: Scalar = non_negative()
    a: Scalar = positive(default=3.7)

    def value(self, x: Float[Array, "..."]) -> Scalar:
        size = jnp.minimum(jnp.abs(x), self.a * self.weight)
        bend = jnp.maximum(size - self.weight, 0.0)
        return jnp.sum(self.weight * size - bend * bend / (2 * (self.a - 1)))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        size = jnp.abs(x)
        near = L1(self.weight).prox(x, step)
        middle = (self.a - 1) * x - self.a * step * self.weight * jnp.sign(x)
        middle = middle / (self.a - 1 - step)
        outer = jnp.where(size <= self.a * self.weight, middle, x)
        return jnp.where(size <= (1 + step) * self.weight, near, outer)

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], L1]:
        fall = (self.a * self.weight - jnp.abs(x)) / (self.a - 1)
        slope = jnp.clip(fall, 0.0, self.weight)
        return slope * jnp.sign(x), L1(jnp.where(x == 0, cast(self.weight, x), 0.0))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return L1(self.weight).bound(x)

    @property
    def step_limit(self) -> Scalar:
        return self.a - 1
