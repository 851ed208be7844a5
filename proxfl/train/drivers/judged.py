"""What an exchange of a Newton method asks and shows, whatever model of the loss its steps are of.

A point counts if the objective there has fallen as Armijo demands of the step. At the end it falls
by less than its rounding; then a step counts if it brings the gradient nearer to a subgradient of
the penalty.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.points import Point, dot, norm, zeros_like
from proxfl.train.drivers.adaptive import choose
from proxfl.train.drivers.driver import Record
from proxfl.train.drivers.endless import Trend, first_trend, followed, further
from proxfl.train.tasks import SHORTER, part_way

SIGMA = 1e-4  # of the promised fall, at least: Armijo's constant
IDLE = 4  # rounds without progress, after which there is none
IDLE_AT_END = 8  # the same once optimality is met and a gap is not
ROUNDING = (
    "Rounding keeps the gradient from coming closer to optimality; use a larger tolerance, or "
    "standardise the features."
)


class Known(NamedTuple):
    """What sites have told of a point; `values` is their losses, one by one."""

    x: Point
    loss: Any
    gradient: Point
    hessian: Any
    values: Any


class Step(NamedTuple):
    """Where the server asks next: so much of the way to the least point of the model."""

    u: Point
    length: Any
    promised: Any  # by how much the objective falls over the whole way, in first order


class Judged(NamedTuple):
    """What exchanges have shown, whatever model of the loss the steps are made with."""

    known: Known  # at the last point that counted
    distance: Any
    scale: Any  # the gradient's norm at the first point
    start: Any  # the objective there
    idle: Any  # rounds since the last that made progress
    trend: Trend
    round: Any
    counted: Any


class Totals(NamedTuple):
    """The answers of all sites together."""

    loss: Any
    gradient: Point
    triangle: Any
    finite: Any
    shorter: Any
    values: Any


def nothing_known(x0: Point, sites: int, coefficients: int) -> tuple[Judged, Step]:
    """What is known before the first exchange, with a Hessian of so many coefficients; and the
    step to x0."""
    number = lambda v: jnp.asarray(v, jnp.float64)
    empty = jnp.zeros((coefficients, coefficients), jnp.float64)
    values = jnp.zeros(sites, jnp.float64)
    nothing = Judged(
        known=Known(x0, number(np.inf), zeros_like(x0), empty, values),
        distance=number(np.inf),
        scale=number(0.0),
        start=number(0.0),
        idle=jnp.asarray(0),
        trend=first_trend(x0),
        round=jnp.asarray(0),
        counted=jnp.asarray(0),
    )
    return nothing, Step(x0, number(1.0), number(0.0))


def obstacle(state: Any, tol: float) -> str | None:
    """Why no more rounds lead to a certified model, if the last ones show it."""
    met = optimality_of(state) <= tol
    return ROUNDING if int(state.idle) >= (IDLE_AT_END if met else IDLE) else None


def optimality_of(state: Any) -> float:
    return float(state.distance) / (float(state.scale) or 1.0)


def question(state: Any, features: Any) -> dict[str, Any]:
    """What sites are asked, with the Hessian on these features."""
    asked = {"x": state.known.x, "u": state.step.u, "length": state.step.length}
    return asked | {"features": features}


def far_question(state: Any) -> dict[str, Any]:
    """What sites are asked about a model that may be on its way to infinity: a loss, no Hessian."""
    step = Step(further(state.known.x, state.trend), jnp.ones_like(state.distance), 0.0)
    return question(state._replace(step=step), np.zeros(0, np.int32))


def judged(g: Regulariser, state: Any, totals: Totals, hessian: Any) -> tuple[Judged, Record]:
    """Whether the point that was asked for is the next model, and what follows from that."""
    before, step = state.known, state.step
    x = part_way(before.x, step.u, step.length)
    now = Known(x, totals.loss, totals.gradient, hessian, totals.values)
    first, distance = jnp.isinf(before.loss), g.distance(x, totals.gradient)
    counted = totals.finite & (first | acceptable(g, state, now, distance))
    known = choose(counted, now, before)
    scale = jnp.where(first, norm(totals.gradient), state.scale)
    progress = counted & (first | (distance <= 0.5 * state.distance))
    fell = objective(g, known) < objective(g, before) - rounding(g, before)
    after = Judged(
        known=known,
        distance=jnp.where(counted, distance, state.distance),
        scale=scale,
        start=jnp.where(first, objective(g, now), state.start),
        idle=jnp.where(progress | (counted & fell), 0, state.idle + 1),
        trend=choose(counted, followed(state.trend, x, distance), state.trend),
        round=state.round + 1,
        counted=jnp.where(counted, state.round + 1, state.counted),
    )
    optimality = distance / jnp.where(scale > 0, scale, 1.0)
    return after, Record(after.round, objective(g, now), optimality, step.length, counted)


def step_to(g: Regulariser, known: Known, u: Point) -> Step:
    promised = dot(known.gradient, u - known.x) + g.value(u) - g.value(known.x)
    return Step(u, jnp.ones_like(promised), promised)


def acceptable(g: Regulariser, state: Any, now: Known, distance):
    """Whether the objective has fallen enough or, within its rounding, the distance has."""
    before, step = objective(g, state.known), state.step
    fallen = objective(g, now) <= before + SIGMA * step.length * step.promised
    level = objective(g, now) <= before + rounding(g, state.known)
    return fallen | (level & (distance <= state.distance))


def shorter_length(g: Regulariser, state: Any, losses):
    """The best of the shorter ways; the shortest, if none is good."""
    step, x = state.step, state.known.x
    lengths = step.length * jnp.asarray(SHORTER, losses.dtype)
    found = losses + jax.vmap(lambda part: g.value(part_way(x, step.u, part)))(lengths)
    good = found <= objective(g, state.known) + SIGMA * lengths * step.promised
    best = jnp.argmin(jnp.where(good, found, jnp.inf))
    return jnp.where(jnp.any(good), lengths[best], lengths[-1])


@jax.jit
def objective(g: Regulariser, known: Known):
    return known.loss + g.value(known.x)


def rounding(g: Regulariser, known: Known):
    return 1e2 * jnp.finfo(jnp.float64).eps * (jnp.abs(known.loss) + g.value(known.x))
