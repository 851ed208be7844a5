"""Losses that are sums over rows, each defined by what it is for one row."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.losses.base import RowLoss
from proxfl.losses.centring import Centring
from proxfl.losses.linear import Linear, augmented, scores_at


class Rowwise(Linear, RowLoss, abc.ABC):  # type: ignore[override]
    """`value` and `slope` speak of one row, whose score is a scalar or one number per output."""

    @abc.abstractmethod
    def value(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def slope(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, "*outputs"]:
        """The derivative of `value` in z."""

    def __call__(self, x, batch):
        return jax.vmap(self.value)(scores_at(x, batch), batch[1])

    def at(self, z, y, weights):
        return weights @ jax.vmap(self.value)(z, y)

    def slopes(self, z, y, weights):
        return counted(weights, jax.vmap(self.slope)(z, y))

    def influence(self, z, y, weights):
        curve = lambda z, y: jnp.abs(jnp.trace(jnp.atleast_2d(jax.jacfwd(self.slope)(z, y))))
        return counted(weights, jax.vmap(curve)(z, y))


class Convex(Rowwise, abc.ABC):
    """A loss that is convex in the scores, and so has a dual; see `centring.py`."""

    convex = True
    has_dual = True
    centring: ClassVar[Centring]
    facts = (*Linear.facts, "centring")

    @abc.abstractmethod
    def second(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, "..."]:
        """The second derivative of `value` in z: a number, or a matrix for several outputs."""

    @abc.abstractmethod
    def conjugate(self, u: Float[Array, "*outputs"], y: Any) -> Float[Array, ""]:
        """max_z u z - value(z, y), for a slope u in its domain."""

    def hessian(self, x, batch, weights, features):
        """From `second`, row by row, without differentiating."""
        second = counted(weights, jax.vmap(self.second)(scores_at(x, batch), batch[1]))
        B = augmented(batch[0], features, x)
        if second.ndim == 1:
            return (B * second[:, None]).T @ B
        one_output = lambda s: jnp.tensordot(B[:, :, None] * s[:, None, :], B, axes=(0, 0))
        blocks = jax.lax.map(one_output, jnp.moveaxis(second, 1, 0))
        size = len(features) * second.shape[1]
        return blocks.transpose(1, 0, 3, 2).reshape(size, size)

    def imbalance(self, z, y, weights):
        u = jax.vmap(self.slope)(z, y)
        return jnp.sum(counted(weights, jax.vmap(self.centring.imbalance)(u, y)), axis=0)

    def dual(self, z, y, weights, scale, correction=None):
        u = jax.vmap(self.slope)(z, y)
        if correction is not None:
            u = jax.vmap(lambda u, y: self.centring.corrected(u, y, correction))(u, y)
        values = jax.vmap(lambda u, y: self.conjugate(scale * u, y))(u, y)
        return jnp.sum(counted(weights, values)), counted(weights, u)


def counted(weights: Float[Array, " rows"], values: Any) -> Any:
    """Weight times value, row by row; exactly 0 where the weight is, even of what overflowed."""
    return jax.vmap(lambda w, v: jnp.where(w == 0, 0.0, w * v))(weights, values)


def each_alone(second: Float[Array, "*outputs"]) -> Float[Array, "..."]:
    """The second derivative of a sum over outputs, from that of each."""
    return jnp.diag(second) if second.ndim else second
