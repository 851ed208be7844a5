"""Slopes that are feasible in the dual.

The dual of minimising mean l(z) + g(coef) over z = A coef + intercept is to maximise, over one
slope u per row,

    -mean l*(u) - g*(-A' u),    with mean u = 0 if there is an intercept,

where l*(u) = max_z u z - l(z), and mean and A' weigh rows and sites as the primal does. At a
solution the slopes are u = l'(z); anywhere else their mean is off by a little. A loss says how to
make it 0 with l* still finite. Scaling all slopes by a factor up to 1 keeps both, since a loss is
bounded below.
"""

import abc
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

Slope = Float[Array, "*outputs"]
Pair = Float[Array, "2 *outputs"]  # two numbers for each output


class Centring(abc.ABC):
    """How the slopes of all rows are given mean zero, through one sum over rows."""

    @abc.abstractmethod
    def imbalance(self, u: Slope, y: Any) -> Pair:
        """What a row tells; the correction is made from its mean over all rows."""

    @abc.abstractmethod
    def correction(self, mean: Pair) -> Pair:
        """How to change every slope, from the mean imbalance."""

    @abc.abstractmethod
    def none(self, outputs: tuple[int, ...]) -> Pair:
        """The correction that changes nothing."""

    @abc.abstractmethod
    def corrected(self, u: Slope, y: Any, by: Pair) -> Slope:
        """A row's slope after the correction."""


class BySign(Centring):
    """The slopes of the sign that weighs more are scaled down to match the others.

    For losses that are sums over outputs: each slope moves towards 0, where l* is finite.
    """

    def imbalance(self, u, y):
        return jnp.stack([jnp.maximum(u, 0.0), jnp.minimum(u, 0.0)])

    def correction(self, mean):
        up, down = mean[0], -mean[1]
        least = jnp.minimum(up, down)
        shrink = lambda side: jnp.where(side > 0, least / jnp.where(side > 0, side, 1.0), 0.0)
        return jnp.stack([shrink(up), shrink(down)])

    def none(self, outputs):
        return jnp.ones((2, *outputs))

    def corrected(self, u, y, by):
        return u * jnp.where(u > 0, by[0], by[1])


BY_SIGN = BySign()
