"""Whether an optimum lies at infinity, as that of separable data: one law for every driver.

Towards such an optimum gradients vanish, so that a certificate is met; but a model that goes there
moves as far while the distance to optimality falls by a factor of ten as it did for the factor
before, where one near a finite optimum hardly moves any more. What moves so is suspected, and all
sites are asked for the loss further along the last such move. If the objective has fallen there by
as much as exponential decay lets expect of the slope, the run goes on; if it still does so at
`DEEP`, the optimum is said to be at infinity. One row far from all others (an outlier in a feature)
looks the same for a while; but sooner or later the objective further along rises, or falls by more,
and the model is certified.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from proxfl.core import Regulariser
from proxfl.points import Point, dot, norm, zeros_like

STILL = 0.01  # of the model's length: who moves less for a tenth of the distance has arrived
SUDDEN = 0.01  # of the distance left by one round: so fast it falls near finite optima only
FURTHER = 4.0  # moves ahead, after which of what decays a ten-thousandth is left
# The fall, by that of the slope over one move: 1 / log(10) where it takes distances to a tenth,
# less where to a hundredth. Near finite optima there is none, towards far ones it is up to 4.
LEAST, MOST = 0.1, 0.6
DEEP = 1e-10  # optimality at which, if the objective still falls so, it is taken to do so for ever
AT_INFINITY = (
    "The objective falls on without end along some combination of features, as for separable "
    "data: its optimum is at infinity; add a penalty, such as l2, or leave such features out."
)


class Trend(NamedTuple):
    """How a model moves while the distance to optimality falls."""

    x: Point  # the model when it had fallen by a factor of ten, or more, the last time
    distance: Any  # then
    least: Any  # ever
    move: Point  # over the last such factor; 0 where it fell suddenly
    suspect: Any  # whether the model moves as those do that go to infinity


def first_trend(x: Point, distance: Any = jnp.inf) -> Trend:
    distance = jnp.asarray(distance, jnp.float64)
    return Trend(x, distance, distance, zeros_like(x), jnp.asarray(False))


def followed(trend: Trend, x: Point, distance: Any) -> Trend:
    """The trend after a round that counts, which has led to x."""
    due, sudden = distance <= 0.1 * trend.distance, distance <= SUDDEN * trend.least
    pick = lambda moved, mark, held: jnp.where(sudden, 0.0, jnp.where(due, moved - mark, held))
    move = jax.tree.map(pick, x, trend.x, trend.move)
    mark = jax.tree.map(lambda new, old: jnp.where(due, new, old), x, trend.x)
    reached = jnp.where(due, distance, trend.distance)
    least = jnp.minimum(distance, trend.least)
    return Trend(mark, reached, least, move, norm(move) > STILL * norm(x))


def is_deep(optimality: float, scale: float) -> bool:
    """Whether what still falls does so for ever.

    Also by the gradient itself: one that was huge at a start far away, as of exponentials, falls by
    many powers of ten on the way to a finite optimum.
    """
    return optimality * max(scale, 1.0) <= DEEP


@jax.jit
def further(x: Point, trend: Trend) -> Point:
    """The point at which to ask for the loss."""
    return x + FURTHER * trend.move


@jax.jit
def falls_on(g: Regulariser, known: Any, trend: Trend, loss: Any) -> Any:
    """Whether the objective is as much lower there as it is on a way to infinity.

    `known` has the model x, its loss and its gradient; `loss` is that of the point further on.
    """
    x, far = known.x, known.x + FURTHER * trend.move
    slope = -dot(known.gradient, trend.move)
    fall = known.loss + g.value(x) - loss - g.value(far)
    return (slope > 0) & (fall >= LEAST * slope) & (fall <= MOST * slope)
