"""Slopes that are feasible in the dual.

The dual of minimising mean l(z) + g(coef) over z = A coef + intercept is to maximise, over one
slope u per row,

    -mean l*(u) - g*(-A' u),    with mean u = 0 if there is an intercept,

where l*(u) = max_z u z - l(z), and mean and A' weigh rows and sites as the primal does. At a
solution the slopes are u = l'(z); anywhere else their mean is off by a little. A loss says how to
make it 0 with l* still finite. Scaling all slopes by a factor up to 1 keeps both, since a loss is
bounded below.

The correction comes from the server, and slopes are moved by it alike whatever the score: if rows
whose slope is above some number were moved otherwise, a server could choose models at which one row
is, and read it off the sums.
"""

import abc
import dataclasses
import math
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
    def corrected(self, u: Slope, y: Any, by: Pair) -> Slope:
        """A row's slope after the correction."""


@dataclasses.dataclass(frozen=True)
class Between(Centring):
    """Slopes from `low` to `high`, numbers or infinite, or from -y if they are of `counts`.

    They are moved away from the side that weighs more: a part of their way to the other end, the
    same for all, or, if there is no end, all by as much.
    """

    low: float = -math.inf
    high: float = math.inf
    counts: bool = False

    def ends(self, y: Any) -> tuple[Any, Any]:
        low = -y if self.counts else jnp.full_like(y, self.low)
        return low, jnp.full_like(y, self.high)

    def imbalance(self, u, y):
        low, _ = self.ends(y)
        return jnp.stack([u, jnp.where(jnp.isfinite(low), low, 0.0).astype(u.dtype)])

    def correction(self, mean):
        mean, low = mean
        part, shift = jnp.zeros_like(mean), -mean
        if self.has_low:
            part = jnp.where(mean > 0, mean / jnp.where(mean > 0, mean - low, 1.0), part)
        if math.isfinite(self.high):
            part = jnp.where(mean < 0, mean / (self.high - jnp.minimum(mean, 0.0)), part)
        return jnp.stack([part, jnp.where(part == 0, shift, 0.0)])

    def corrected(self, u, y, by):
        """Whatever the correction, slopes do not leave their ends, but for rounding."""
        (low, high), (part, shift) = self.ends(y), by
        part = jnp.clip(part, -1.0 if math.isfinite(self.high) else 0.0, float(self.has_low))
        shift = jnp.clip(
            shift,
            0.0 if self.has_low else -math.inf,
            0.0 if math.isfinite(self.high) else math.inf,
        )
        end = jnp.where(part > 0, low, high)
        way = jnp.where(part == 0, 0.0, jnp.abs(part) * jnp.where(part == 0, 0.0, end - u))
        return jnp.clip(u + way + shift, low, high)

    @property
    def has_low(self) -> bool:
        return self.counts or math.isfinite(self.low)


class BySign(Centring):
    """The slopes of the sign that weighs more are scaled down to match the others.

    For losses whose slope has a sign that the label alone decides: each moves towards 0, where l*
    is finite.
    """

    def imbalance(self, u, y):
        return jnp.stack([jnp.maximum(u, 0.0), jnp.minimum(u, 0.0)])

    def correction(self, mean):
        up, down = jnp.maximum(mean[0], 0.0), jnp.maximum(-mean[1], 0.0)  # whoever told it
        least = jnp.minimum(up, down)
        shrink = lambda side: jnp.where(side > 0, least / jnp.where(side > 0, side, 1.0), 0.0)
        return jnp.stack([shrink(up), shrink(down)])

    def corrected(self, u, y, by):
        return u * jnp.where(u > 0, by[0], by[1])


BY_SIGN = BySign()
