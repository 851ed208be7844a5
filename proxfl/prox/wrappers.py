"""Regularisers made from another: scaled, shifted, or with a ridge."""

import jax.numpy as jnp

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar, dot
from proxfl.prox.directional import Weight, cast
from proxfl.prox.norms import L1
from proxfl.pytree import non_negative, positive, pytree


@pytree
class Scaled(Regulariser):
    """factor * g(x)."""

    g: Regulariser
    factor: Scalar = positive()

    def value(self, x: Point) -> Scalar:
        return self.factor * self.g.value(x)

    def prox(self, x: Point, step: Scalar) -> Point:
        return self.g.prox(x, self.factor * step)

    def distance(self, x: Point, grad: Point) -> Scalar:
        return self.factor * self.g.distance(x, grad / self.factor)

    def bound(self, x: Point) -> Scalar:
        return self.factor * self.g.bound(x)

    @property
    def step_limit(self) -> Scalar:
        return self.g.step_limit / self.factor


@pytree
class Shifted(Regulariser):
    """g(x - centre): pulls towards the centre instead of towards 0."""

    g: Regulariser
    centre: Point

    def value(self, x: Point) -> Scalar:
        return self.g.value(x - cast(self.centre, x))

    def prox(self, x: Point, step: Scalar) -> Point:
        centre = cast(self.centre, x)
        return centre + self.g.prox(x - centre, step)

    def distance(self, x: Point, grad: Point) -> Scalar:
        return self.g.distance(x - cast(self.centre, x), grad)

    def bound(self, x: Point) -> Scalar:
        return self.g.bound(x)

    @property
    def step_limit(self) -> Scalar:
        return self.g.step_limit


@pytree
class Ridge(Regulariser):
    """g(x) + weight / 2 |x|^2."""

    g: Regulariser
    weight: Scalar = non_negative()

    def value(self, x: Point) -> Scalar:
        return self.g.value(x) + self.weight / 2 * dot(x, x)

    def prox(self, x: Point, step: Scalar) -> Point:
        shrink = 1 + step * self.weight
        return self.g.prox(x / shrink, step / shrink)

    def distance(self, x: Point, grad: Point) -> Scalar:
        return self.g.distance(x, grad + self.weight * x)

    def bound(self, x: Point) -> Scalar:
        return jnp.where(self.weight > 0, jnp.inf, self.g.bound(x))

    @property
    def step_limit(self) -> Scalar:
        """1 / step_limit is what g lacks of being convex, and the ridge makes up for it."""
        return 1 / jnp.maximum(1 / self.g.step_limit - self.weight, 0.0)

    def conjugate(self, v: Point) -> Scalar | None:
        if self.g.step_limit < jnp.inf:  # nor is g convex
            return None
        best = self.g.prox(v / self.weight, 1 / self.weight)
        return dot(v, best) - self.value(best)


def elastic_net(l1: Weight, l2: Scalar) -> Ridge:
    """sum_i l1_i |x_i| + l2 / 2 |x|^2."""
    return Ridge(L1(l1), l2)
