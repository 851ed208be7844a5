"""Constraints as regularisers: g is 0 on the set and infinite off it, its prox the projection.

Subgradients of an indicator fill a cone, so none has a bound: Assumption 3.1 excludes them. The
distance is the length of -grad projected on the tangent cone, infinite off the set. A point whose
excess is within rounding counts as on the set.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar, dot, dtype, norm, size
from proxfl.prox.directional import Directional, Weight, cast, shortest
from proxfl.prox.levels import level, onto_simplex
from proxfl.pytree import positive, pytree


def slack(x: Point) -> float:
    """The relative excess left to rounding: errors in a sum over x grow like the root of its size.

    The factor 8 leaves room for a projection followed by an average over clients.
    """
    return 8 * float(jnp.finfo(dtype(x)).eps) * size(x) ** 0.5


def indicator(inside: Bool[Array, ""] | bool, x: Point) -> Scalar:
    return jnp.where(inside, jnp.zeros((), dtype(x)), jnp.inf)


@pytree
class Box(Directional):
    """lo <= x <= hi in every coordinate; the ends are numbers or arrays, and may be infinite."""

    lo: Weight
    hi: Weight

    @classmethod
    def of(cls, lo: Weight, hi: Weight) -> "Box":
        if not np.all(np.asarray(lo) <= np.asarray(hi)):
            raise ValueError(f"a box needs lo <= hi in every coordinate, got {lo} and {hi}.")
        return cls(lo, hi)

    def value(self, x: Float[Array, "..."]) -> Scalar:
        near, (lo, hi) = self._near(x), cast((self.lo, self.hi), x)
        return indicator(jnp.all((x >= lo - near) & (x <= hi + near)), x)

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        return jnp.clip(x, *cast((self.lo, self.hi), x))

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "Box"]:
        near, (lo, hi), zero = self._near(x), cast((self.lo, self.hi), x), jnp.zeros_like(x)
        lo = jnp.where(x <= lo + near, zero, -jnp.inf)
        return zero, Box(lo, jnp.where(x >= hi - near, zero, jnp.inf))

    def distance(self, x: Float[Array, "..."], grad: Float[Array, "..."]) -> Scalar:
        return norm(shortest(self, x, grad)) + self.value(x)

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.inf

    def conjugate(self, v: Float[Array, "..."]) -> Scalar:
        lo, hi = cast((self.lo, self.hi), v)
        return jnp.sum(jnp.where(v == 0, 0.0, jnp.maximum(lo * v, hi * v)))

    def _near(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return 8 * float(jnp.finfo(x.dtype).eps) * jnp.abs(x)


@pytree
class NonNegative(Directional):
    """x >= 0 in every coordinate."""

    @property
    def is_sublinear(self) -> bool:
        return True

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return indicator(jnp.all(x >= 0), x)

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        return jnp.maximum(x, 0)

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Box]:
        return Box(0.0, jnp.inf).derivative(x)

    def distance(self, x: Float[Array, "..."], grad: Float[Array, "..."]) -> Scalar:
        return norm(shortest(self, x, grad)) + self.value(x)

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.inf


@pytree
class LInfBall(Directional):
    """max_i |x_i| <= radius."""

    radius: Scalar = positive()

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return Box(-self.radius, self.radius).value(x)

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        return Box(-self.radius, self.radius).prox(x, step)

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Box]:
        return Box(-self.radius, self.radius).derivative(x)

    def distance(self, x: Float[Array, "..."], grad: Float[Array, "..."]) -> Scalar:
        return norm(shortest(self, x, grad)) + self.value(x)

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.inf


@pytree
class L2Ball(Regulariser):
    """|x| <= radius."""

    radius: Scalar = positive()

    def value(self, x: Point) -> Scalar:
        return indicator(norm(x) <= self.radius * (1 + slack(x)), x)

    def prox(self, x: Point, step: Scalar) -> Point:
        return x * (self.radius / jnp.maximum(norm(x), self.radius))

    def distance(self, x: Point, grad: Point) -> Scalar:
        # On the sphere the tangent cone is the half-space <x, d> <= 0.
        outwards = jnp.where(norm(x) < self.radius * (1 - slack(x)), 0.0, -dot(grad, x))
        square = jnp.where(outwards > 0, dot(x, x), 1.0)
        return norm(grad + x * (jnp.maximum(outwards, 0.0) / square)) + self.value(x)

    def bound(self, x: Point) -> Scalar:
        return jnp.inf


@pytree
class Simplex(Regulariser):
    """x >= 0 with entries that sum to radius."""

    radius: Scalar = positive(default=1.0)

    def value(self, x: Float[Array, "..."]) -> Scalar:
        near = slack(x) * self.radius
        return indicator(jnp.all(x >= -near) & (jnp.abs(jnp.sum(x) - self.radius) <= near), x)

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        return onto_simplex(x, self.radius)

    def distance(self, x: Float[Array, "..."], grad: Float[Array, "..."]) -> Scalar:
        # Tangent directions sum to 0 and are >= 0 where x is.
        free, v = x > 0, -grad
        along = v - level(v, 0.0, free)
        return norm(jnp.where(free, along, jnp.maximum(along, 0.0))) + self.value(x)

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.inf

    def conjugate(self, v: Float[Array, "..."]) -> Scalar:
        return self.radius * jnp.max(v)


@pytree
class L1Ball(Regulariser):
    """sum_i |x_i| <= radius."""

    radius: Scalar = positive()

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return indicator(jnp.sum(jnp.abs(x)) <= self.radius * (1 + slack(x)), x)

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        size = jnp.abs(x)
        projected = jnp.sign(x) * onto_simplex(size, self.radius)
        return jnp.where(jnp.sum(size) <= self.radius, x, projected)

    def distance(self, x: Float[Array, "..."], grad: Float[Array, "..."]) -> Scalar:
        # On the sphere, tangent directions have sum_free sign(x) d + sum_others |d| <= 0.
        free = x != 0
        v = jnp.where(free, -grad * jnp.sign(x), jnp.abs(grad))
        on_sphere = jnp.sum(jnp.abs(x)) >= self.radius * (1 - slack(x))
        q = jnp.where(on_sphere, jnp.maximum(level(v, 0.0, free), 0.0), 0.0)
        return norm(jnp.where(free, v - q, jnp.maximum(v - q, 0.0))) + self.value(x)

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.inf
