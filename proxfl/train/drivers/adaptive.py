"""Solve a federated problem to a certificate.

One round is one exchange: the sites take their local steps from the model just broadcast and, with
the summed gradients, report one number, their loss there. So the server knows, for every model it
ever broadcast, the objective and (with one local step) the full gradient, and from them

* the step: doubled from 1/L while the quadratic upper bound holds and halved when it fails, anew
  after every so many rounds, since a loss may be much flatter near its optimum than at the start;
* the certificate: the distance of -gradient to the subdifferential of the penalty;
* trouble: a round whose objective is not finite, or above that at the end of the last search, is
  not counted. Clients go back to the state before it, and the step before it is taken again at half
  its length; after several local steps along the full gradient, which is asked for.

Between searches the server step is accelerated. At the end the certificate is computed once more,
from full gradients in float64, at the model that is returned.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.algorithms.decoupled import Decoupled
from proxfl.algorithms.wrappers.accelerated import Accelerated
from proxfl.algorithms.wrappers.reports_loss import ReportsLoss
from proxfl.core import Regulariser
from proxfl.engine.round import CompiledExchange
from proxfl.points import Point, Scalar, dot, norm
from proxfl.problem import Problem
from proxfl.train.drivers.driver import Driver, Record, Settings, output
from proxfl.train.drivers.endless import Trend, falls_on, first_trend, followed, further
from proxfl.train.federation import Call, Exact
from proxfl.train.spec import UNDERFLOWS

NOWHERE = 1e-20  # of the model's length: a move so short cannot change it
PATIENCE = 20  # rounds between two searches, doubled whenever a search finds nothing longer


class Search(NamedTuple):
    """The search for a longer step."""

    on: Any
    found: Any  # whether this search has lengthened the step
    waited: Any  # rounds since the last one
    patience: Any  # rounds to wait for the next one


class Known(NamedTuple):
    """A model that sites have visited: what is known there."""

    x: Point
    gradient: Point  # the mean over the local steps; the full gradient when there is one
    loss: Any


class State(NamedTuple):
    """Everything the server knows; a pytree, so that saving it is the checkpoint."""

    server: Any
    eta: Any
    eta_g: Any
    search: Search
    known: Known  # the last round that counted
    scale: Any  # the gradient's norm at the start: optimality is relative to it
    start: Any  # the objective there, to which the duality gap is
    ceiling: Any  # the objective where the last search ended: no round may go above it
    trend: Trend
    round: Any  # exchanges made, counted or not
    counted: Any  # the last of them that counted


def algorithm_for(settings: Settings, eta: Any, eta_g: Any) -> ReportsLoss:
    inner = Decoupled(eta, eta_g, settings.local_steps)
    return ReportsLoss(Accelerated(inner) if settings.accelerate else inner)


class Solver(Driver):
    """Algorithm 1 with steps found on the way."""

    def begin(self) -> State:
        """Measure every site's smoothness and set the first, safe step."""
        curvatures, found = self.curvatures(), self.evaluate_start()
        start = Known(self.problem.x0, found.gradient, jnp.asarray(found.loss, jnp.float64))
        return first_state(self.problem, self.settings, *curvatures, start)

    def algorithm(self, state: State) -> ReportsLoss:
        return algorithm_for(self.settings, state.eta, state.eta_g)

    def model(self, state: State) -> Point:
        return state.known.x

    def obstacle(self, state: State) -> str | None:
        """Steps that were halved until they move nothing: the losses tell no better model apart."""
        move = state.eta * state.eta_g * self.settings.local_steps * norm(state.known.gradient)
        stuck = (0 < move) & (move < NOWHERE * norm(state.known.x))
        if not stuck and state.eta >= UNDERFLOWS:
            return None
        return (
            f"The step was halved to {float(state.eta):.1e}, since the sites' losses show no "
            "difference between models so near any more; raise the tolerance."
        )

    def endless(self, state: State) -> bool:
        if not state.trend.suspect:
            return False
        loss = self.evaluate(further(state.known.x, state.trend)).loss
        return bool(falls_on(self.problem.g, state.known, state.trend, loss))

    def exact(self, algorithm: ReportsLoss, state: State) -> Exact | None:
        """With one local step, what the uplinks of a round are."""
        eta = float(state.eta)
        if self.settings.local_steps > 1 or eta < UNDERFLOWS:
            return None
        return Exact(output(algorithm, self.problem.g, state.server), -eta)

    def one_round(self, state: State) -> tuple[State, Record]:
        algorithm, g, tau = self.algorithm(state), self.problem.g, self.settings.local_steps
        made, counted = int(state.round), int(state.counted)
        call = Call(step=made + 1, counted=counted, round=made, exchange=0)
        down = CompiledExchange(algorithm).broadcast(g, state.server)
        answers = self.federation.visit(algorithm, call, down, self.exact(algorithm, state))
        after, seen = learn(algorithm, g, state, answers.received, answers.info["loss"], tau)
        if tau > 1 and lost(state, after):
            full = self.evaluate(after.known.x).gradient
            after = retreat(self.algorithm(after), g, after, full)
        return after, Record(*(np.asarray(value).item() for value in seen))


def first_state(
    problem: Problem, settings: Settings, mean: Scalar, largest: Scalar, start: Known
) -> State:
    """The server before the first round, from the sites' smoothness and what x0 is like."""
    x0, tau, searches = problem.x0, settings.local_steps, settings.eta is None
    # Local steps must suit the most curved site, also after the step has grown fourfold.
    found = jnp.maximum(4 * largest / (tau * mean), 1.0) if tau > 1 else 1.0
    eta_g = found if settings.eta_g is None else settings.eta_g
    eta = 1 / (mean * eta_g * tau) if settings.eta is None else settings.eta
    number = lambda v: jnp.asarray(v, jnp.float64)
    return State(
        server=algorithm_for(settings, eta, eta_g).init(problem.g, x0)[0],
        eta=number(eta),
        eta_g=number(eta_g),
        search=Search(
            on=jnp.asarray(searches),
            found=jnp.asarray(False),
            waited=jnp.asarray(0),
            patience=jnp.asarray(PATIENCE if searches else np.iinfo(np.int64).max),
        ),
        known=start,
        scale=norm(start.gradient),
        start=objective(problem.g, start),
        ceiling=objective(problem.g, start),
        trend=first_trend(x0),
        round=jnp.asarray(0),
        counted=jnp.asarray(0),
    )


def carried_over(g: Regulariser, settings: Settings, state: State) -> State:
    """The state in which to go on under a new penalty: all that is known of the loss still holds.

    The first round starts one step down from the last model, as any round does.
    """
    algorithm = algorithm_for(settings, state.eta, state.eta_g)
    moved = retreat(algorithm, g, state, state.known.gradient)
    known = state.known
    trend = first_trend(known.x, g.distance(known.x, known.gradient))
    return moved._replace(ceiling=objective(g, known), trend=trend)


def lost(before: State, after: State):
    """Whether a round of several local steps failed in a way that calls for the full gradient.

    The first failure may only have undone the mixing; after the second the gradient that was asked
    for is known, so a third needs no other.
    """
    return (after.eta < before.eta) & (after.round - before.counted <= 2)


@jax.jit
def retreat(algorithm, g: Regulariser, state: State, gradient: Point) -> State:
    """One step down a gradient from the last model that counted; nothing is mixed.

    Down a mean over local steps there need be no descent, however short the step; down the full
    gradient there is.
    """
    known = Known(state.known.x, gradient, state.known.loss)
    server = algorithm.init(g, known.x - algorithm.inner.eta_round * gradient)[0]
    return state._replace(server=server, known=known)


@partial(jax.jit, static_argnames="tau")
def learn(algorithm, g: Regulariser, state: State, received, loss, tau: int):
    """The state after a round's replies, and what the round showed."""
    inner, accelerated = algorithm.inner, isinstance(algorithm.inner, Accelerated)
    x = algorithm.output(g, state.server)
    now = Known(x, received.mean / (-state.eta * tau), loss)
    first = state.round == 0
    good = acceptable(g, state, now, inner.eta_round, tau)
    counted = jnp.isfinite(loss) & (first | good)
    known = choose(counted, now, state.known)
    search = next_search(state.search, counted)
    grow = counted & search.on & ~first
    # A mixed start that fails says nothing of the step: only the mixing is undone.
    mixed = inner.mixed(state.server) if accelerated else jnp.zeros_like(counted)
    shrink = ~counted & ~mixed
    eta = state.eta * jnp.where(grow, 2.0, jnp.where(shrink, 0.5, 1.0))
    # A new step length: take the last counted step (again) with it, and forget what was mixed.
    longer = inner.eta_round / state.eta * eta
    afresh = algorithm.init(g, known.x - longer * known.gradient)[0]
    onwards = algorithm.server(g, state.server, received)
    unmixed = inner.undo(state.server) if accelerated else afresh
    # Mixed steps need not descend one by one; plain ones must.
    fixed, distance = accelerated & counted & ~first & ~search.on, g.distance(x, now.gradient)
    after = State(
        server=choose(grow | shrink, afresh, choose(counted, onwards, unmixed)),
        eta=eta,
        eta_g=state.eta_g,
        search=search,
        known=known,
        scale=state.scale,
        start=state.start,
        ceiling=jnp.where(fixed, state.ceiling, objective(g, known)),
        trend=choose(counted, followed(state.trend, x, distance), state.trend),
        round=state.round + 1,
        counted=jnp.where(counted, state.round + 1, state.counted),
    )
    optimality = distance / jnp.where(state.scale > 0, state.scale, 1.0)
    return after, Record(after.round, objective(g, now), optimality, eta, counted)


def objective(g: Regulariser, known: Known):
    return known.loss + g.value(known.x)


def acceptable(g: Regulariser, state: State, now: Known, eta_round, tau: int):
    """Whether the step from the last counted model to this one did what it promised."""
    before, rounding = state.known, 1e2 * jnp.finfo(jnp.float64).eps * jnp.abs(state.known.loss)
    move = now.x - before.x
    bound = before.loss + dot(before.gradient, move) + dot(move, move) / (2 * eta_round)
    below = objective(g, now) <= state.ceiling + rounding
    # With several local steps the mean gradient is not that of the start: ask for descent only.
    promised = now.loss <= bound + rounding if tau == 1 else below
    return jnp.where(state.search.on, promised & below, below)


def next_search(search: Search, counted) -> Search:
    """A search goes on while steps are good; the next one begins after some rounds without."""
    due = ~search.on & (search.waited >= search.patience)
    ended = search.on & ~counted
    idle = jnp.where(search.found, PATIENCE, 2 * search.patience)
    return Search(
        on=(search.on & counted) | due,
        found=jnp.where(due, False, search.found | (search.on & counted)),
        waited=jnp.where(search.on | due, 0, search.waited + 1),
        patience=jnp.where(ended, idle, search.patience),
    )


def choose(condition, yes: Any, no: Any) -> Any:
    return jax.tree.map(partial(jnp.where, condition), yes, no)
