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
        return jnp.sum(self._weights(x) * self._lengths(x))

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        lengths, most = self._lengths(x), step * self._weights(x)
        kept = jnp.where(lengths > most, 1 - most / jnp.where(lengths > most, lengths, 1.0), 0.0)
        return x * kept[self._slots()]

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "GroupL2"]:
        lengths, weights = self._lengths(x), self._weights(x)
        slopes = weights / jnp.where(lengths > 0, lengths, 1.0)
        rest = jnp.where(lengths > 0, 0.0, weights)
        return x * slopes[self._slots()], GroupL2(self.labels, rest[:-1])

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return norm(self._weights(x))

    def _slots(self) -> Int[Array, "..."]:
        """Where each coordinate's group is kept: those in no group share one last slot."""
        return jnp.where(self.labels < 0, self.factors.size, self.labels)

    def _weights(self, x: Float[Array, "..."]) -> Float[Array, " slots"]:
        return self.weight * jnp.append(cast(self.factors, x), jnp.zeros((), x.dtype))

    def _lengths(self, x: Float[Array, "..."]) -> Float[Array, " slots"]:
        squares, slots = jnp.ravel(x * x), jnp.ravel(self._slots())
        return jnp.sqrt(jax.ops.segment_sum(squares, slots, self.factors.size + 1))
