"""Models along a grid of weights, for several sets of sites: the full data, and each fold's rest.

The empty model is solved for first, with its intercept and whatever is not penalised; its gradient
gives the weights. Algorithm 1 then goes from one model to the next, since all that the server knows
of the loss stays true when only the penalty changes. Newton's method shares exchanges among all
sets and weights: some weights first, spread over the grid, then those in between, each predicted
from its neighbour. For a quadratic loss all weights follow from what the first exchange told.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.core import Regulariser
from proxfl.points import Point
from proxfl.problem import Problem, Shard
from proxfl.prox import Zero
from proxfl.train.agreement import Agreement
from proxfl.train.drivers import compiled, together
from proxfl.train.drivers.driver import Solution
from proxfl.train.drivers.driver import solve as drive
from proxfl.train.drivers.in_process import InProcess
from proxfl.train.drivers.newton import Newton
from proxfl.train.drivers.together import SharedExchange, Solved, Wanted
from proxfl.train.drivers.working_set import NewtonOnSets
from proxfl.train.federation import NEAR
from proxfl.train.inference import Inference, infer
from proxfl.train.local import LocalFederation, Traffic, total
from proxfl.train.method import Along, Method, method_for, on_sets, refuse_newton
from proxfl.train.regulariser import penalty, refuse_path_without_start
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of

# A weight with which nothing penalised is in a model, whatever its gradient.
ENDLESS = 1e50
APART = 8  # weights between two of those that come first


class ReadySites(NamedTuple):
    """Sites that have agreed, with their data at hand; `told` is the bytes of that, up and down."""

    agreement: Agreement
    problem: Problem
    shards: Shard
    told: tuple[int, int]


class PathPoint(NamedTuple):
    """The model of one weight, its certificate, and the exchanges it was in."""

    x: Point
    loss: float
    objective: float
    optimality: float
    converged: bool
    rounds: int


class Walk(NamedTuple):
    """The models of each set of sites along the weights, and what all of it cost, once known."""

    weights: np.ndarray
    found: list[list[PathPoint]]
    first_rounds: int  # for the empty model of the first set
    traffic: Traffic
    method: Method


class Course(NamedTuple):
    """What a walk goes along: so many values of the weight named `key`, all else as in the spec."""

    spec: Spec
    key: str
    points: int
    weights_of: Callable[[Point], Any]  # from the gradient of the first set's empty model

    def refuse_without_start(self, agreement: Agreement) -> None:
        about = agreement.features, len(agreement.targets)
        refuse_path_without_start(self.key, self.spec, *about)

    def penalty_at(self, agreement: Agreement, weight: float) -> Regulariser:
        shape = agreement.features, len(agreement.targets), np.array(agreement.unit)
        return penalty(self.spec.replace(**{self.key: weight}), *shape)


Watch = Callable[[int], None]


def walk(sets: Sequence[ReadySites], course: Course, watch: Watch) -> Walk:
    """The models of sets of sites along a course."""
    agreement, spec = sets[0].agreement, course.spec
    course.refuse_without_start(agreement)
    up, down = (sum(held.told[k] for held in sets) for k in (0, 1))
    told = Traffic(1, up, down)
    method = method_for(spec, agreement, NEAR, Along(course.points, len(sets)))
    if method.name != "newton":
        found = one_by_one(sets, course, method, watch)
        return found._replace(traffic=total({"": found.traffic, "agreement": told}))
    smooth = replace(sets[0].problem, g=Zero())
    exchange = InProcess(smooth, [held.shards for held in sets])
    agreements = [held.agreement for held in sets]
    found = by_newton(agreements, smooth, course, exchange, method, watch)
    return found._replace(traffic=total({"": exchange.traffic, "agreement": told}))


def solve(
    sites: ReadySites, spec: Spec
) -> tuple[compiled.Solved | together.Solved | Solution, int]:
    """The one model that a spec asks for, and how often sites would have been asked for it."""
    settings, problem = settings_of(spec), sites.problem
    if method_for(spec, sites.agreement, NEAR).name != "newton":
        found = compiled.solve(problem, sites.shards, settings)
        return found, 1 + compiled.BESIDE_ROUNDS + len(found.records)
    refuse_newton(spec, sites.agreement)
    if on_sets(spec, sites.agreement):
        federation = LocalFederation(problem, sites.shards)
        driver = NewtonOnSets(federation, problem, np.asarray(sites.shards.weight), settings)
        return drive(driver), 1 + total(federation.ledger).exchanges
    smooth = replace(problem, g=Zero())
    exchange = InProcess(smooth, [sites.shards])
    wanted = Wanted(problem.g, 0, together.unasked(smooth, exchange))
    (found,) = together.solve(smooth, [wanted], settings, exchange)
    return found, 1 + exchange.exchanges


def asking(sites: ReadySites, spec: Spec) -> Newton:
    """One who asks sites in this process for what inference is made of."""
    federation = LocalFederation(sites.problem, sites.shards)
    return Newton(federation, sites.problem, np.asarray(sites.shards.weight), settings_of(spec))


def inference_at(sites: ReadySites, spec: Spec, x: Point) -> Inference:
    """Standard errors of the model at x, which one more exchange tells."""
    return infer(asking(sites, spec), spec, sites.agreement, x)


def one_by_one(sets: Sequence[ReadySites], course: Course, method: Method, watch: Watch) -> Walk:
    spec, weights, walked, first, traffic = course.spec, None, [], [], Traffic()
    settings = settings_of(spec)
    for sites in sets:

        def solve_at(weight: float, before: Any = None, sites=sites) -> compiled.Solved:
            problem = replace(sites.problem, g=course.penalty_at(sites.agreement, weight))
            return compiled.solve(problem, sites.shards, settings, spec.seed, before and before.run)

        last = solve_at(ENDLESS)
        weights = (
            np.asarray(course.weights_of(last.gradient), float) if weights is None else weights
        )
        each = [last]
        for weight in weights:
            each.append(solve_at(float(weight), each[-1]))
            watch(len(walked) * len(weights) + len(each) - 1)
        first.append(len(last.records))
        walked.append([PathPoint(*s[:5], len(s.records)) for s in each[1:]])
        up, down = compiled.round_bytes(sites.problem, sites.shards, settings)
        rounds = sum(len(s.records) for s in each)
        more = compiled.BESIDE_ROUNDS + len(each) - 1  # a certificate for each of the other models
        made = Traffic(rounds + more, (rounds + len(each)) * up, (rounds + len(each)) * down)
        traffic = total({"": traffic, "set": made})
    return Walk(np.asarray(weights), walked, first[0], traffic, method)


def by_newton(
    agreements: Sequence[Agreement],
    problem: Problem,
    course: Course,
    exchange: SharedExchange,
    method: Method,
    watch: Watch,
) -> Walk:
    """The models of sets of sites, by their agreements; `problem` is without a penalty."""
    refuse_newton(course.spec, agreements[0], along_path=True)
    settings = settings_of(course.spec)

    def solve(weights: Any, known: Sequence[Sequence[Any]], watch: Watch) -> list[list[Solved]]:
        """By set, the models of some weights, from what is known of as many models."""
        wanted = [
            Wanted(course.penalty_at(agreement, float(weight)), place, state)
            for place, (agreement, states) in enumerate(zip(agreements, known, strict=True))
            for weight, state in zip(weights, states, strict=True)
        ]
        found = together.solve(problem, wanted, settings, exchange, watch)
        count = len(weights)
        return [found[i * count : (i + 1) * count] for i in range(len(agreements))]

    unasked = [[together.unasked(problem, exchange)] for _ in agreements]
    empty = solve([ENDLESS], unasked, lambda done: None)
    weights = np.asarray(course.weights_of(empty[0][0].state.known.gradient), float)
    places = np.arange(len(weights))
    loss: Any = problem.loss
    some = places if loss.quadratic else np.union1d(places[::APART], places[-1])
    first = solve(weights[some], [[one.state] * len(some) for (one,) in empty], watch)
    between = np.setdiff1d(places, some)
    near = np.searchsorted(some, between) - 1
    then = lambda done: watch(len(agreements) * len(some) + done)
    rest = solve(weights[between], [[each[k].state for k in near] for each in first], then)
    back = np.argsort([*some, *between])
    ordered = [[(a + b)[k] for k in back] for a, b in zip(first, rest, strict=True)]
    found = [[point_of(solved) for solved in each] for each in ordered]
    return Walk(weights, found, len(empty[0][0].records), Traffic(), method)


def point_of(solved: Solved) -> PathPoint:
    known = solved.state.known
    numbers = float(known.loss), solved.objective, solved.optimality, solved.converged
    return PathPoint(jax.device_get(known.x), *numbers, len(solved.records))
