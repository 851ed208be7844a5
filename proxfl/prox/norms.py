"""Norms and the squared norm, each with a weight."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar, dot, dtype, norm, zeros_like
from proxfl.prox.directional import Directional, Weight, cast
from proxfl.prox.levels import level
from proxfl.pytree import non_negative, pytree


@pytree
class Zero(Regulariser):
    """No regulariser: g(x) = 0."""

    def value(self, x: Point) -> Scalar:
        return jnp.zeros((), dtype(x))

    def prox(self, x: Point, step: Scalar) -> Point:
        return x

    def distance(self, x: Point, grad: Point) -> Scalar:
        return norm(grad)

    def bound(self, x: Point) -> Scalar:
        return 0.0


@pytree
class SquaredL2(Regulariser):
    """Ridge: g(x) = weight / 2 |x|^2."""

    weight: Scalar = non_negative()

    def value(self, x: Point) -> Scalar:
        return self.weight / 2 * dot(x, x)

    def prox(self, x: Point, step: Scalar) -> Point:
        return x / (1 + step * self.weight)

    def distance(self, x: Point, grad: Point) -> Scalar:
        return norm(grad + self.weight * x)

    def bound(self, x: Point) -> Scalar:
        return jnp.where(self.weight > 0, jnp.inf, 0.0)


@pytree
class L1(Directional):
    """Lasso: g(x) = sum_i weight_i |x_i|; a coordinate of weight 0 is not penalised."""

    weight: Weight = non_negative()

    @property
    def is_sublinear(self) -> bool:
        return True

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.sum(cast(self.weight, x) * jnp.abs(x))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        most = step * cast(self.weight, x)
        return x - jnp.clip(x, -most, most)

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "L1"]:
        weight = cast(self.weight, x)
        return weight * jnp.sign(x), L1(jnp.where(x == 0, weight, 0.0))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return norm(jnp.full_like(x, self.weight))


@pytree
class L2Norm(Directional):
    """The norm, not squared: g(x) = weight |x|; all coordinates are zero together or none is."""

    weight: Scalar = non_negative()

    def value(self, x: Point) -> Scalar:
        return self.weight * norm(x)

    def prox(self, x: Point, step: Scalar) -> Point:
        length, most = norm(x), step * self.weight
        # The inner choice keeps 0 / 0 out of the branch not taken.
        return x * jnp.where(length > most, 1 - most / jnp.where(length > most, length, 1.0), 0.0)

    def derivative(self, x: Point) -> tuple[Point, "L2Norm"]:
        length = norm(x)
        slope = x * (self.weight / jnp.where(length > 0, length, 1.0))
        return slope, L2Norm(jnp.where(length > 0, zeros_like(length), self.weight))

    def bound(self, x: Point) -> Scalar:
        return self.weight


@pytree
class LInf(Regulariser):
    """The largest entry: g(x) = weight max_i |x_i|."""

    weight: Scalar = non_negative()

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return self.weight * jnp.max(jnp.abs(x))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        # Clipping, unlike taking away the projection on the dual ball, leaves exact ties.
        top = jnp.maximum(level(jnp.abs(x), step * self.weight), 0.0)
        return jnp.clip(x, -top, top)

    def distance(self, x: Float[Array, "..."], grad: Float[Array, "..."]) -> Scalar:
        # dg(x) is weight times the hull of sign(x_i) e_i over the largest entries; dg(0), the ball.
        size = jnp.abs(x)
        top = jnp.max(size)
        v = jnp.where(top > 0, -grad * jnp.sign(x), jnp.abs(grad))
        q = level(jnp.where(size == top, v, -jnp.inf), self.weight)
        q = jnp.where(top > 0, q, jnp.maximum(q, 0.0))
        return norm(jnp.where(size == top, jnp.minimum(v, q), jnp.abs(grad)))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return self.weight
