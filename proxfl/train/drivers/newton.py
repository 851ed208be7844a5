"""Proximal Newton: few exchanges for models with few coefficients.

One round is one exchange: sites tell the loss, the gradient and the Hessian at a point, all of them
sums over rows. The server makes a quadratic model of the loss from them, minimises it with the
penalty (`model_step.py`), and asks at its least point. If the objective there has fallen as Armijo
demands, that is the next model, with all that the next step needs; a good step is one exchange. If
not, the sites have also told the loss at shorter ways, of which the best is asked for next.

A loss that is quadratic has one Hessian, which is asked for once.

Which steps count `judged.py` says, and `endless.py` when an optimum is at infinity.
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
from proxfl.points import Point, norm, size
from proxfl.train.drivers.adaptive import choose
from proxfl.train.drivers.driver import Driver, Look, Record, too_large
from proxfl.train.drivers.endless import Trend, falls_on, first_trend
from proxfl.train.drivers.judged import (
    Known,
    Step,
    Totals,
    far_question,
    judged,
    nothing_known,
    objective,
    obstacle,
    optimality_of,
    question,
    shorter_length,
    step_to,
)
from proxfl.train.drivers.model_step import bend, minimise

FORCING = 1e-2  # times how near the optimum is: the part that a step leaves, for fast convergence


class State(NamedTuple):
    """Everything the server knows; a pytree, so that saving it is the checkpoint.

    What has the name of a field of `Judged` is that.
    """

    known: Known
    step: Step
    reach: Any  # how far to go where the loss has no curvature
    distance: Any
    scale: Any
    start: Any
    idle: Any
    trend: Trend
    round: Any
    counted: Any


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
        optimality, gradient = optimality_of(state), state.known.gradient
        return Look(reached, float(state.distance), optimality, losses, gradient)

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


def exactness_for(loss: Any, tol: float) -> Any:
    """What a step may leave undone, relative to a distance and to how near that is.

    The model of a quadratic loss is the objective itself, so that one step is enough.
    """
    return jax.device_put(np.float64(1e-2 * tol if loss.quadratic else FORCING))


@partial(jax.jit, static_argnames="sites")
def first_state(x0: Point, sites: int) -> State:
    """The server before it has asked anything; the first point is x0."""
    nothing, step = nothing_known(x0, sites, size(x0))
    return State(**nothing._asdict(), step=step, reach=jnp.maximum(norm(x0), 1.0))


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
    before, hessian = state.known, unpacked(totals.triangle, state.known.hessian)
    after, seen = judged(g, state, totals, hessian)
    counted, moved = seen.counted, 10 * norm(after.known.x - before.x)
    further = counted & ~jnp.isinf(before.loss)
    reach = jnp.where(further, jnp.maximum(moved, 1e-3), state.reach)
    onwards = next_step(g, after.known, after.distance, after.scale, reach, exactness)
    shorter = state.step._replace(length=shorter_length(g, state, totals.shorter))
    return State(**after._asdict(), step=choose(counted, onwards, shorter), reach=reach), seen


@jax.jit
def next_step(g: Regulariser, known: Known, distance, scale, reach, exactness) -> Step:
    """To the least point of the model; the nearer to the optimum, the more exactly to it."""
    bent = bend(known.hessian, ravel_pytree(known.gradient)[0], distance, reach)
    forcing = exactness * jnp.minimum(distance / jnp.where(scale > 0, scale, 1.0), 1.0)
    return step_to(g, known, minimise(g, known.x, known.gradient, bent, forcing)[0])


def unpacked(triangle, before):
    """A symmetric matrix from its upper triangle; if none was asked for, the one before."""
    rows, columns = np.triu_indices(len(before))
    if triangle.size != rows.size:
        return before
    upper = jnp.zeros_like(before).at[rows, columns].set(triangle)
    return upper + jnp.triu(upper, 1).T
