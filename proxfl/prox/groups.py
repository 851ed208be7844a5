"""The group lasso."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from proxfl.points import Scalar, norm
from proxfl.prox.directional import Directional, cast
from proxfl.pytree import non_negative, pytree


@pytree
class GroupL2(Directional):
    """Group lasso: g(x) = weight sum_k factors_k |x_k|, x_k the coordinates whose label is k.

    Labels are shaped like x, and -1 leaves a coordinate out; `GroupL2.of` checks them.
    """

    labels: Int[Array | np.ndarray, "..."]
    factors: Float[Array | np.ndarray, " groups"] = non_negative()
    weight: Scalar = non_negative(default=1.0)

    @classmethod
    def of(cls, labels: Any, weight: Scalar = 1.0, factors: Any = None) -> "GroupL2":
        """One factor for each group; by default the square root of the group's size."""
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iu":
            raise ValueError(f"group labels must be whole numbers, got {labels.dtype}.")
        groups = int(labels.max(initial=-1)) + 1 if factors is None else len(factors)
        wrong = labels[(labels < -1) | (labels >= groups)]
        if wrong.size:
            raise ValueError(
                f"group label {wrong[0]} is out of range; use 0 to {groups - 1}, or -1 for none."
            )
        if factors is None:
            factors = np.sqrt(np.bincount(labels[labels >= 0], minlength=groups))
        return cls(labels.astype(np.int32), np.asarray(factors, np.float64), weight)

    @property
    def is_sublinear(self) -> bool:
        return True

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.sum(weights_of(self, x) * lengths_of(self, x))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        lengths, most = lengths_of(self, x), step * weights_of(self, x)
        kept = jnp.where(lengths > most, 1 - most / jnp.where(lengths > most, lengths, 1.0), 0.0)
        return x * kept[slots_of(self)]

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "GroupL2"]:
        lengths, weights = lengths_of(self, x), weights_of(self, x)
        slopes = weights / jnp.where(lengths > 0, lengths, 1.0)
        rest = jnp.where(lengths > 0, 0.0, weights)
        return x * slopes[slots_of(self)], GroupL2(self.labels, rest[:-1])

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return norm(weights_of(self, x))


def slots_of(g: Any) -> Int[Array, "..."]:
    """Where each coordinate's group is kept: those in no group share one last slot."""
    return jnp.where(jnp.asarray(g.labels) < 0, g.factors.size, g.labels)


def weights_of(g: Any, x: Float[Array, "..."]) -> Float[Array, " slots"]:
    return g.weight * jnp.append(cast(g.factors, x), jnp.zeros((), x.dtype))


def sums_of(g: Any, x: Float[Array, "..."]) -> Float[Array, " slots"]:
    return jax.ops.segment_sum(jnp.ravel(x), jnp.ravel(slots_of(g)), g.factors.size + 1)


def lengths_of(g: Any, x: Float[Array, "..."]) -> Float[Array, " slots"]:
    """The norm of x in each group."""
    return jnp.sqrt(sums_of(g, x * x))
