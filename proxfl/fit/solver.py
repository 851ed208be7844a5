"""Solve a federated problem to a certificate.

One round is one exchange: the sites take their local steps from the model just broadcast and, with
the summed gradients, report one number, their loss there. So the server knows, for every model it
ever broadcast, the objective and (with one local step) the full gradient, and from them

* the step: doubled from 1/L while the quadratic upper bound holds and halved when it fails, anew
  after every so many rounds, since a loss may be much flatter near its optimum than at the start;
* the certificate: the distance of -gradient to the subdifferential of the penalty;
* trouble: a round whose objective is not finite, or above that at the end of the last search, is
  not counted. Clients go back to the state before it, and the step before it is taken again at half
  its length.

Between searches the server step is accelerated. At the end the certificate is computed once more,
from full gradients in float64, at the model that is returned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.algorithms.accelerated import Accelerated
from proxfl.algorithms.decoupled import Decoupled
from proxfl.algorithms.watched import Watched
from proxfl.core import Regulariser
from proxfl.federation import Call, Federation
from proxfl.points import Point, dot, norm, zeros_like
from proxfl.problem import Problem


@dataclass(frozen=True)
class Settings:
    """What the solver may be told; steps left open are found by it."""

    rounds: int = 10_000
    tol: float = 1e-6
    local_steps: int = 1
    accelerate: bool = True
    eta: float | None = None
    eta_g: float | None = None


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
    search: Search
    known: Known  # the last round that counted
    scale: Any  # the gradient's norm at the start: optimality is relative to it
    ceiling: Any  # the objective where the last search ended: no round may go above it
    round: Any  # exchanges made, counted or not
    counted: Any  # the last of them that counted


class Record(NamedTuple):
    """What one round showed."""

    round: int
    objective: float
    optimality: float
    eta: float
    counted: bool


def algorithm_for(settings: Settings, eta: Any, eta_g: Any) -> Watched:
    inner = Decoupled(eta, eta_g, settings.local_steps)
    return Watched(Accelerated(inner) if settings.accelerate else inner)


class Solver:
    """The server's side of one training run over a federation."""

    def __init__(
        self, federation: Federation, problem: Problem, weights: np.ndarray, settings: Settings
    ):
        self.federation, self.problem = federation, problem
        self.weights, self.settings = np.asarray(weights), settings
        self.eta_g = 1.0 if settings.eta_g is None else settings.eta_g

    def begin(self) -> State:
        """Measure every site's smoothness and set the first, safe step."""
        x0, tau = self.problem.x0, self.settings.local_steps
        answers = self.federation.ask("curvature", {"x": x0})
        each = np.array([float(answers[site]["curvature"]) for site in self.federation.sites])
        mean, largest = float(self.weights @ each), float(each.max())
        if not np.isfinite(mean) or mean <= 0:
            raise ValueError(
                f"The loss has curvature {mean} at the start, which gives no step; "
                "check for constant columns and huge values, or set eta."
            )
        if self.settings.eta_g is None and tau > 1:
            # Local steps must suit the most curved site, also after the step has grown fourfold.
            self.eta_g = max(1.0, 4 * largest / (tau * mean))
        given = self.settings.eta
        eta = 1 / (mean * self.eta_g * tau) if given is None else given
        server = algorithm_for(self.settings, eta, self.eta_g).init(self.problem.g, x0)[0]
        number = lambda v: jnp.asarray(v, jnp.float64)
        unknown = Known(x0, zeros_like(x0), number(jnp.inf))
        return State(
            server=server,
            eta=number(eta),
            search=Search(
                on=jnp.asarray(given is None),
                found=jnp.asarray(False),
                waited=jnp.asarray(0),
                patience=jnp.asarray(PATIENCE if given is None else np.iinfo(np.int64).max),
            ),
            known=unknown,
            scale=number(0.0),
            ceiling=number(jnp.inf),
            round=jnp.asarray(0),
            counted=jnp.asarray(0),
        )

    def one_round(self, state: State) -> tuple[State, Record]:
        algorithm = algorithm_for(self.settings, state.eta, self.eta_g)
        g, step = self.problem.g, int(state.round) + 1
        down = broadcast(algorithm, g, state.server)
        call = Call(step=step, counted=int(state.counted), round=step - 1, exchange=0)
        answers = self.federation.visit(algorithm, call, down)
        state, seen = learn(
            algorithm, g, state, answers.received, answers.info["loss"], self.settings.local_steps
        )
        objective, residual, counted = (np.asarray(v).item() for v in seen)
        if not counted and step == 1:
            raise ValueError(
                "The objective is not finite at the starting point; "
                "check the data for huge values, or standardise the features."
            )
        scale = float(state.scale)
        optimality = residual / scale if scale > 0 else residual
        return state, Record(step, objective, optimality, float(state.eta), bool(counted))

    def certify(self, x: Point) -> tuple[float, float]:
        """Objective and optimality of a model, from full gradients of all sites."""
        answers = self.federation.ask("evaluate", {"x": x})
        parts = [answers[site] for site in self.federation.sites]
        loss = sum(w * part["value"] for w, part in zip(self.weights, parts, strict=True))
        gradient = jax.tree.map(
            lambda *leaves: sum(w * a for w, a in zip(self.weights, leaves, strict=True)),
            *(part["gradient"] for part in parts),
        )
        g = self.problem.g
        return float(loss + g.value(x)), float(g.distance(x, gradient))


@jax.jit
def broadcast(algorithm, g: Regulariser, server):
    return algorithm.broadcast(g, server)


@partial(jax.jit, static_argnames="tau")
def learn(algorithm, g: Regulariser, state: State, received, loss, tau: int):
    """The state after a round's replies, and (objective, distance to optimality, counted)."""
    accelerated = isinstance(algorithm.inner, Accelerated)
    inner = algorithm.inner.inner if accelerated else algorithm.inner
    x = algorithm.output(g, state.server)
    now = Known(x, received.mean / (-state.eta * tau), loss)
    first = state.round == 0
    good = acceptable(g, state, now, inner.eta_round, tau)
    counted = jnp.isfinite(loss) & (first | good)
    known = choose(counted, now, state.known)
    search = next_search(state.search, counted)
    grow = counted & search.on & ~first
    eta = jnp.where(counted, jnp.where(grow, 2 * state.eta, state.eta), state.eta / 2)
    # A new step length: take the last counted step (again) with it, and forget what was mixed.
    longer = inner.eta_round / state.eta * eta
    afresh = algorithm.init(g, known.x - longer * known.gradient)[0]
    onwards = algorithm.server(g, state.server, received)
    # Mixed steps need not descend one by one; plain ones must.
    fixed = accelerated & counted & ~first & ~search.on
    after = State(
        server=choose(counted & ~grow, onwards, afresh),
        eta=eta,
        search=search,
        known=known,
        scale=jnp.where(first, norm(now.gradient), state.scale),
        ceiling=jnp.where(fixed, state.ceiling, objective(g, known)),
        round=state.round + 1,
        counted=jnp.where(counted, state.round + 1, state.counted),
    )
    return after, (objective(g, now), g.distance(x, now.gradient), counted)


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


class Solution(NamedTuple):
    """The model, its certificate, and how it was reached."""

    x: Point
    objective: float
    distance: float
    optimality: float
    converged: bool
    state: State
    records: list[Record]


def solve(
    solver: Solver,
    state: State | None = None,
    records: list[Record] | None = None,
    watch: Callable[[State, list[Record]], None] = lambda state, records: None,
) -> Solution:
    """Rounds until the certificate is met, or until they are used up."""
    settings = solver.settings
    state, records = state or solver.begin(), list(records or [])
    while True:
        state, record = solver.one_round(state)
        records.append(record)
        watch(state, records)
        last = record.round >= settings.rounds
        if last or (record.counted and record.optimality <= settings.tol):
            objective, distance = solver.certify(state.known.x)
            optimality = distance / (float(state.scale) or 1.0)
            converged = optimality <= settings.tol
            if last or converged:
                found = (objective, distance, optimality, converged)
                return Solution(state.known.x, *found, state, records)
