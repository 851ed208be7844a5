"""Many models at once, which share their exchanges: the weights of a path, in all of its folds.

One exchange asks every site about all models that are not done yet. Models of one shape share two
programs: one that goes on under another penalty, and one that learns. With the rows at hand
`in_process.py` makes all exchanges of a model in one.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.losses import features_of
from proxfl.points import Point
from proxfl.problem import Problem
from proxfl.train.drivers.compiled import NOT_FINITE
from proxfl.train.drivers.driver import Record, Settings
from proxfl.train.drivers.endless import AT_INFINITY, falls_on, is_deep
from proxfl.train.drivers.judged import (
    Totals,
    far_question,
    objective,
    obstacle,
    optimality_of,
    question,
)
from proxfl.train.drivers.newton import State, carried_over, exactness_for, first_state, learn


class Wanted(NamedTuple):
    """A model to solve for: its penalty, the set of sites, and what is known of them by now."""

    g: Regulariser
    place: int
    state: State


class Query(NamedTuple):
    """What a set of sites is asked about one model."""

    place: int
    question: Mapping[str, Any]


class Underway(NamedTuple):
    """A model, the features to ask a Hessian on, and when to look again: at an optimality, or
    after so many exchanges."""

    wanted: Wanted
    features: np.ndarray
    goal: float
    most: int


class SharedExchange(abc.ABC):
    """Asks sets of sites, each with a place: the full data and, say, what each fold leaves.

    `members` is how many answers the losses of a model are told in.
    """

    members: int

    @abc.abstractmethod
    def __call__(self, asked: Sequence[Query]) -> list[Totals]:
        """One exchange with all sites."""

    def advance(
        self, models: Sequence[Underway], tol: float, exactness: Any
    ) -> list[tuple[State, list[Record]]]:
        """Each model after at least one exchange, and what each exchange showed."""
        states = [model.wanted.state for model in models]
        asked = [
            Query(model.wanted.place, question(state, model.features))
            for model, state in zip(models, states, strict=True)
        ]
        after = []
        for model, state, totals in zip(models, states, self(asked), strict=True):
            now, seen = learn(model.wanted.g, state, totals, exactness)
            after.append((now, [Record(*(np.asarray(value).item() for value in seen))]))
        return after


class Solved(NamedTuple):
    """A model as it was left, and what each exchange that it was in showed.

    `obstacle` says why it has no certificate, if more exchanges would not give it one.
    """

    state: State
    objective: float
    optimality: float
    records: list[Record]
    converged: bool
    obstacle: str | None

    @property
    def x(self) -> Point:
        return self.state.known.x


def unasked(problem: Problem, exchange: SharedExchange) -> State:
    return first_state(problem.x0, exchange.members)


def solve(
    problem: Problem,
    wanted: Sequence[Wanted],
    settings: Settings,
    exchange: SharedExchange,
    watch: Callable[[int], None] = lambda done: None,
) -> list[Solved]:
    """Exchanges until every model has its certificate, or will not get one.

    `problem` is without a penalty. A model that is known of already is predicted first.
    """
    loss: Any = problem.loss
    exactness = exactness_for(loss, settings.tol)
    known = [bool(np.isfinite(model.state.known.loss)) for model in wanted]
    states = [
        carry_over(model.g, model.state, exactness) if known else model.state
        for model, known in zip(wanted, known, strict=True)
    ]
    records: list[list[Record]] = [[] for _ in wanted]
    causes: list[str | None] = [None for _ in wanted]
    goals = [settings.tol for _ in wanted]  # lower, while a model may be on its way to infinity
    left = [i for i in range(len(wanted)) if goes_on(states[i], records[i], settings, goals[i])]
    while left:
        models = []
        for i in left:
            told, more = known[i] or bool(records[i]), settings.rounds - len(records[i])
            features = 0 if loss.quadratic and told else features_of(problem.x0)
            most = 1 if loss.quadratic and not told else more  # the Hessian is asked for once
            on = wanted[i]._replace(state=states[i])
            models.append(Underway(on, np.arange(features, dtype=np.int32), goals[i], most))
        advanced = exchange.advance(models, settings.tol, exactness)
        for i, (state, seen) in zip(left, advanced, strict=True):
            states[i], records[i] = state, records[i] + seen
            if not (records[i][0].counted or known[i]) or not np.isfinite(float(states[i].scale)):
                raise InputError(NOT_FINITE)
        ended = [i for i in left if not goes_on(states[i], records[i], settings, goals[i])]
        left = [i for i in left if i not in ended]
        for i in endless([i for i in ended if states[i].trend.suspect], wanted, states, exchange):
            now, more = optimality_of(states[i]), len(records[i]) < settings.rounds
            if now <= goals[i] and more and not is_deep(now, float(states[i].scale)):
                goals[i], left = now / 10, sorted([*left, i])
            elif now <= settings.tol or obstacle(states[i], settings.tol):
                causes[i] = AT_INFINITY
        watch(len(wanted) - len(left))
    ends = zip(wanted, states, records, causes, strict=True)
    return [result(model.g, state, held, cause, settings) for model, state, held, cause in ends]


def goes_on(state: State, records: Sequence[Record], settings: Settings, goal: float) -> bool:
    met = optimality_of(state) <= goal
    return not met and len(records) < settings.rounds and not obstacle(state, settings.tol)


def endless(
    suspects: Sequence[int],
    wanted: Sequence[Wanted],
    states: Sequence[State],
    exchange: SharedExchange,
) -> list[int]:
    """Those of the suspects whose objective falls on far beyond the model; one exchange tells."""
    if not suspects:
        return []
    totals = exchange([Query(wanted[i].place, far_question(states[i])) for i in suspects])
    on = lambda i, far: (
        far.finite and falls_on(wanted[i].g, states[i].known, states[i].trend, far.loss)
    )
    return [i for i, far in zip(suspects, totals, strict=True) if on(i, far)]


def result(
    g: Regulariser, state: State, records: list[Record], cause: str | None, settings: Settings
) -> Solved:
    optimality, stopped = optimality_of(state), cause or obstacle(state, settings.tol)
    converged = optimality <= settings.tol and not stopped
    return Solved(state, float(objective(g, state.known)), optimality, records, converged, stopped)


carry_over = jax.jit(carried_over)
