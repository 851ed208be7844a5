"""Proximal Newton: few exchanges for models with few coefficients.

One round is one exchange: sites tell the loss, the gradient and the Hessian at a point, all of them
sums over rows. The server makes a quadratic model of the loss from them, minimises it with the
penalty (`model_step.py`), and asks at its least point. If the objective there has fallen as Armijo
demands, that is the next model, with all that the next step needs; a good step is one exchange. If
not, the sites have also told the loss at shorter ways, of which the best is asked for next.

A loss that is quadratic has one Hessian, which is asked for once.

At the end the objective falls by less than its rounding; then a step counts if it brings the
gradient nearer to a subgradient of the penalty. Of an optimum at infinity `endless.py` has the law.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.losses import features_of
from proxfl.points import Point, dot, norm, size, zeros_like
from proxfl.train.drivers.adaptive import choose
from proxfl.train.drivers.driver import Driver, Look, Record, too_large
from proxfl.train.drivers.endless import Trend, falls_on, first_trend, followed, further
from proxfl.train.drivers.model_step import bend, minimise
from proxfl.train.tasks import SHORTER, part_way

SIGMA = 1e-4  # of the promised fall, at least: Armijo's constant
FORCING = 1e-2  # times how near the optimum is: the part that a step leaves, for fast convergence
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


class State(NamedTuple):
    """Everything the server knows; a pytree, so that saving it is the checkpoint."""

    known: Known  # at the last point that counted
    step: Step
    reach: Any  # how far to go where the loss has no curvature
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


class ByNewton(Driver):
    """What is known is that of the last point that counted; no site keeps a state."""

    def algorithm(self, state: Any) -> None:
        return None

    def model(self, state: Any) -> Point:
        return state.known.x

    def look(self, state: Any) -> Look:
        """From the last answers, which are full gradients of all sites in float64."""
        values = np.asarray(state.known.values).tolist()
        losses = dict(zip(self.federation.sites, values, strict=True))
        reached = float(objective(self.problem.g, state.known))
        return Look(reached, float(state.distance), optimality_of(state), losses)

    def obstacle(self, state: Any) -> str | None:
        return obstacle(state, self.settings.tol)

    def endless(self, state: Any) -> bool:
        if not state.trend.suspect:
            return False
        answers = self.federation.ask("newton", far_question(state))
        loss = self.mean(answers, "value")
        if not all(bool(answers[site]["finite"]) for site in self.federation.sites):
            return False
        return bool(falls_on(self.problem.g, state.known, state.trend, loss))


class Newton(ByNewton):
    """Proximal Newton steps on all coordinates."""

    def begin(self) -> State:
        return first_state(self.problem.x0, len(self.weights))

    def one_round(self, state: State) -> tuple[State, Record]:
        exactness = exactness_for(self.problem.loss, self.settings.tol)
        after, seen = learn(self.problem.g, state, self.ask(state), exactness)
        return after, Record(*(np.asarray(value).item() for value in seen))

    def ask(self, state: State) -> Totals:
        loss: Any = self.problem.loss
        known = loss.quadratic and np.isfinite(state.known.loss)
        features = 0 if known else features_of(state.known.x)
        return totals_of(self, state, np.arange(features, dtype=np.int32))


def totals_of(driver: Driver, state: Any, features: Any) -> Totals:
    """What all sites tell of the next point, with the Hessian on these features."""
    answers = driver.federation.ask("newton", question(state, features))
    if not np.isfinite(state.known.loss):
        refuse_start(driver, answers)
    each = lambda part: np.stack([answers[site][part] for site in driver.federation.sites])
    return Totals(
        loss=driver.mean(answers, "value"),
        gradient=driver.mean(answers, "gradient"),
        triangle=driver.mean(answers, "hessian"),
        finite=each("finite").all(),
        shorter=driver.mean(answers, "shorter"),
        values=each("value"),
    )


def refuse_start(driver: Driver, answers: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse data with which nothing is known of the starting point."""
    for site in driver.federation.sites:
        if not bool(answers[site]["finite"]):
            raise InputError(
                f"The loss of site {site} is not finite at the start, or its gradient or "
                "Hessian is not; check its data for huge values, or standardise the features."
            )
    if not np.isfinite(float(length(driver.mean(answers, "gradient")))):
        told = {s: {"gradient": answers[s]["gradient"]} for s in driver.federation.sites}
        raise InputError(too_large(told))


length = jax.jit(norm)


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


def exactness_for(loss: Any, tol: float) -> Any:
    """What a step may leave undone, relative to a distance and to how near that is.

    The model of a quadratic loss is the objective itself, so that one step is enough.
    """
    return jax.device_put(np.float64(1e-2 * tol if loss.quadratic else FORCING))


@partial(jax.jit, static_argnames="sites")
def first_state(x0: Point, sites: int) -> State:
    """The server before it has asked anything; the first point is x0."""
    number = lambda v: jnp.asarray(v, jnp.float64)
    empty = jnp.zeros((size(x0), size(x0)), jnp.float64)
    return State(
        known=Known(x0, number(np.inf), zeros_like(x0), empty, jnp.zeros(sites, jnp.float64)),
        step=Step(x0, number(1.0), number(0.0)),
        reach=jnp.maximum(norm(x0), 1.0),
        distance=number(np.inf),
        scale=number(0.0),
        start=number(0.0),
        idle=jnp.asarray(0),
        trend=first_trend(x0),
        round=jnp.asarray(0),
        counted=jnp.asarray(0),
    )


def carried_over(g: Regulariser, state: State, exactness) -> State:
    """The state in which to go on under a new penalty: all that is known of the loss still holds.

    The next point is predicted from it, without asking anyone.
    """
    distance = g.distance(state.known.x, state.known.gradient)
    step = next_step(g, state.known, distance, state.scale, state.reach, exactness)
    trend = first_trend(state.known.x, distance)
    return state._replace(step=step, distance=distance, idle=0 * state.idle, trend=trend)


@jax.jit
def learn(g: Regulariser, state: State, totals: Totals, exactness) -> tuple[State, Record]:
    """The state after an exchange, and what it showed."""
    before, step = state.known, state.step
    x = part_way(before.x, step.u, step.length)
    now = Known(
        x, totals.loss, totals.gradient, unpacked(totals.triangle, before.hessian), totals.values
    )
    first, distance = jnp.isinf(before.loss), g.distance(x, totals.gradient)
    counted = totals.finite & (first | acceptable(g, state, now, distance))
    known = choose(counted, now, before)
    scale = jnp.where(first, norm(totals.gradient), state.scale)
    reach = jnp.where(counted & ~first, jnp.maximum(10 * norm(x - before.x), 1e-3), state.reach)
    onwards = next_step(g, known, distance, scale, reach, exactness)
    shorter = step._replace(length=shorter_length(g, state, totals.shorter))
    progress = counted & (first | (distance <= 0.5 * state.distance))
    fell = objective(g, known) < objective(g, before) - rounding(g, before)
    after = State(
        known=known,
        step=choose(counted, onwards, shorter),
        reach=reach,
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


@jax.jit
def next_step(g: Regulariser, known: Known, distance, scale, reach, exactness) -> Step:
    """To the least point of the model; the nearer to the optimum, the more exactly to it."""
    bent = bend(known.hessian, ravel_pytree(known.gradient)[0], distance, reach)
    forcing = exactness * jnp.minimum(distance / jnp.where(scale > 0, scale, 1.0), 1.0)
    u, _ = minimise(g, known.x, known.gradient, bent, forcing)
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


def unpacked(triangle, before):
    """A symmetric matrix from its upper triangle; if none was asked for, the one before."""
    rows, columns = np.triu_indices(len(before))
    if triangle.size != rows.size:
        return before
    upper = jnp.zeros_like(before).at[rows, columns].set(triangle)
    return upper + jnp.triu(upper, 1).T
