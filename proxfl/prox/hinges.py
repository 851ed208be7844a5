"""The one-sided penalty."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.points import Scalar, norm
from proxfl.prox.directional import Directional, Weight, cast
from proxfl.pytree import non_negative, pytree


@pytree
class Relu(Directional):
    """Penalises positive entries only: g(x) = sum_i weight_i max(x_i, 0)."""

    weight: Weight = non_negative()

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.sum(cast(self.weight, x) * jnp.maximum(x, 0.0))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        return x - jnp.clip(x, 0.0, step * cast(self.weight, x))

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "Relu"]:
        weight = cast(self.weight, x)
        return jnp.where(x > 0, weight, 0.0), Relu(jnp.where(x == 0, weight, 0.0))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return norm(jnp.full_like(x, self.weight))
