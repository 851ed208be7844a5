"""A loss with an intercept of each site's own, which no penalty touches and which never leaves it.

The loss of a site with scores z is min over b of inner(z + b). By the envelope theorem its slopes
are those of the inner loss at the best b, where they sum to 0 at every site; its second derivative
is the Schur complement H - H11'H / 1'H1 of the inner one, since db/dz = -1'H / 1'H1; and its
conjugate that of the inner loss on slopes of sum 0.
"""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from proxfl.losses.linear import Linear, Scores, Weights
from proxfl.points import Scalar

MOST = 200  # steps of the search; halving alone needs about 60 once the sign has changed
FARTHEST = 100  # the search for a change of sign ends at two to this power


@dataclasses.dataclass(frozen=True)
class SiteIntercept(Linear, abc.ABC):
    """The inner loss, which has one score per row, at the site's best intercept."""

    inner: Any
    couples_rows = True
    takes_intercept = False
    ignores_shifts = True
    convex = True

    @classmethod
    def options(cls):
        return {}

    @property
    def target(self):  # type: ignore[override]
        return self.inner.target

    @property
    def curvature(self):  # type: ignore[override]
        return self.inner.curvature

    @property
    def has_dual(self):  # type: ignore[override]
        return self.inner.has_dual

    @property
    def mean(self):  # type: ignore[override]
        return self.inner.mean

    @property
    def described(self):
        return self.inner.described

    @property
    def settings(self):
        return self.inner.settings

    @property
    def of_new_rows(self):
        return self.inner

    def level(self, z: Scores, y: Any, weights: Weights) -> Scalar:
        """The best intercept for rows whose scores without it are z."""
        fixed = jax.lax.stop_gradient(z)
        found = jax.lax.stop_gradient(search(lambda b: self.pull(fixed + b, y, weights), z.dtype))
        curve = jax.lax.stop_gradient(self.pull(fixed + found, y, weights)[1])
        # One more step, which carries the derivative in z.
        step = self.pull(z + found, y, weights)[0] / jnp.where(curve > 0, curve, 1.0)
        return found - jnp.where(curve > 0, step, 0.0)

    def pull(self, z: Scores, y: Any, weights: Weights) -> tuple[Scalar, Scalar]:
        """The derivative of the inner loss in the intercept, and the second one."""
        slopes = lambda b: jnp.sum(self.inner.slopes(z + b, y, weights))
        zero = jnp.zeros((), z.dtype)
        return jax.jvp(slopes, (zero,), (jnp.ones_like(zero),))

    def exists(self, z: Scores, y: Any, weights: Weights) -> Array:
        """Whether there is a best intercept: the derivative changes its sign somewhere."""
        far = 2.0 ** jnp.arange(FARTHEST, dtype=z.dtype)
        slope = jax.vmap(lambda b: self.pull(z + b, y, weights)[0])
        return jnp.any((slope(-far) < 0) & (slope(far) > 0))

    def at(self, z, y, weights):
        return self.inner.at(z + self.level(z, y, weights), y, weights)

    def slopes(self, z, y, weights):
        return self.inner.slopes(z + self.level(z, y, weights), y, weights)

    def influence(self, z, y, weights):
        return self.inner.influence(z + self.level(z, y, weights), y, weights)

    def dual(self, z, y, weights, scale, correction=None):
        z = z + self.level(z, y, weights)
        own = self.inner.centring.correction(self.inner.imbalance(z, y, weights))
        return self.inner.dual(z, y, weights, scale, own)


def search(pull: Any, kind: Any) -> Scalar:
    """Where an increasing function, told with its derivative, is 0: Newton's steps, kept between
    points of different sign, or halving where they would leave."""
    number = lambda value: jnp.asarray(value, kind)
    tiny = 4 * jnp.finfo(kind).eps

    def go_on(state):
        steps, _, _, moved, b = state
        return (steps < MOST) & (moved > tiny * jnp.maximum(1.0, jnp.abs(b)))

    def step(state):
        steps, low, high, _, b = state
        value, slope = pull(b)
        low, high = jnp.where(value < 0, b, low), jnp.where(value > 0, b, high)
        newton = b - value / jnp.where(slope > 0, slope, 1.0)
        inside = (slope > 0) & (newton > low) & (newton < high)
        # Without a point on the other side, no step is longer than twice the way so far.
        reach = jnp.maximum(1.0, 2 * jnp.abs(b))
        away = b - jnp.sign(value) * reach
        halved = jnp.where(jnp.isfinite(low) & jnp.isfinite(high), (low + high) / 2, away)
        target = jnp.where(inside, jnp.clip(newton, b - reach, b + reach), halved)
        target = jnp.where(value == 0, b, target)
        return steps + 1, low, high, jnp.abs(target - b), target

    start = (jnp.asarray(0), *map(number, (-jnp.inf, jnp.inf, jnp.inf, 0.0)))
    return jax.lax.while_loop(go_on, step, start)[-1]
