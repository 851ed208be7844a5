"""A regularisation path: models from the smallest weight that leaves none, down a grid of weights.

The empty model is solved for first, with its intercept and whatever is not penalised. Its gradient
gives the largest weight of interest. From there each model starts where the last one ended, since
all that the server knows of the loss stays true when only the penalty changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from proxfl.points import Tree
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, stack
from proxfl.tables import InputError, Table
from proxfl.train.agreement import Agreement, agree, prepare, problem_of, summarise
from proxfl.train.choice import Choice
from proxfl.train.drivers.compiled import Solved, round_bytes, solve
from proxfl.train.drivers.driver import Settings
from proxfl.train.model import Model
from proxfl.train.penalties import REGISTRY, Sweep
from proxfl.train.regulariser import largest_useful_weight, penalty
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of

# A weight with which nothing penalised is in a model, whatever its gradient.
ENDLESS = 1e50
USUAL = Choice()


class ReadySites(NamedTuple):
    """Sites that have agreed, with their data at hand."""

    agreement: Agreement
    problem: Problem
    shards: Shard


@dataclass(frozen=True)
class RegularisationPath:
    """Models along one weight, all else as in the spec; arrays run along the weights first."""

    spec: Spec
    choice: Choice
    agreement: Agreement
    weights: np.ndarray
    models: list[Model]
    loss: np.ndarray
    objective: np.ndarray
    optimality: np.ndarray
    converged: np.ndarray
    rounds: np.ndarray
    first_rounds: int  # for the empty model
    round_bytes: tuple[int, int]  # up and down, all sites

    @property
    def key(self) -> str:
        """The name in Spec of the weight that changes."""
        return self.choice.sweep

    @property
    def sweep(self) -> Sweep:
        """What the penalty of that weight says of a path."""
        found: Any = REGISTRY[self.key].sweep  # a choice names none that has none
        return found

    @property
    def coef(self) -> np.ndarray:
        return np.stack([model.coef for model in self.models])

    @property
    def nonzeros(self) -> np.ndarray:
        return np.array([np.count_nonzero(model.coef) for model in self.models])

    def spec_at(self, index: int) -> Spec:
        return with_weight(self.spec, self.key, float(self.weights[index]))


def path(
    spec: Spec,
    tables: Sequence[Table],
    choice: Choice = USUAL,
    weights: Sequence[float] | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> RegularisationPath:
    """The path along the weight of a choice: on its grid, or through the weights given."""
    key = choice.sweep
    spec, settings = swept(spec, key).read_files(), settings_of(spec)
    with precision(np.float64):
        sites = ready(spec, tables)
        empty = empty_model(sites, spec, key, settings)
        along = grid(sites, spec, choice, empty) if weights is None else weights
        walked = walk(sites, spec, key, along, empty, settings, watch)
        traffic = round_bytes(sites.problem, sites.shards, settings)
    return RegularisationPath(
        spec=spec,
        choice=choice,
        agreement=sites.agreement,
        weights=np.asarray(along, float),
        models=[Model.of(spec.loss, sites.agreement, solved.x) for solved in walked],
        loss=np.array([solved.loss for solved in walked]),
        objective=np.array([solved.objective for solved in walked]),
        optimality=np.array([solved.optimality for solved in walked]),
        converged=np.array([solved.converged for solved in walked]),
        rounds=np.array([len(solved.records) for solved in walked]),
        first_rounds=len(empty.records),
        round_bytes=traffic,
    )


def swept(spec: Spec, key: str) -> Spec:
    """The spec with any weight under `key`, so that it is known to be there."""
    return with_weight(spec, key, 1.0)


def with_weight(spec: Spec, key: str, weight: float) -> Spec:
    return spec.replace(**{key: weight})


def ready(spec: Spec, tables: Sequence[Table]) -> ReadySites:
    agreement = agree(spec, {table.name: summarise(table, spec) for table in tables})
    examples = [prepare(table, spec, agreement) for table in tables]
    capacity = padded_size(max(table.rows for table in tables))
    shards = stacked(examples, np.array(agreement.weights), capacity)
    return ReadySites(agreement, problem_of(spec, agreement), shards)


def padded_size(rows: int) -> int:
    """Rows, padding included: data of about the same size then share their programs.

    Up to 1024 the next power of two, 256 at least, where compiling costs more than padding; beyond
    it at most an eighth more.
    """
    power = max(256, 1 << (rows - 1).bit_length())
    step = power // 16 if power > 1024 else power
    return -(-rows // step) * step


def stacked(examples: Sequence[Any], weights: np.ndarray, capacity: int) -> Shard:
    """Shards of so many rows each; a site without rows has no weight."""
    held = next(example for example in examples if example is not None)
    nothing = tuple(np.zeros_like(part[:1]) for part in held)
    filled = [nothing if example is None else example for example in examples]
    return stack(filled, weights, capacity, np.float64)


def problem_with(sites: ReadySites, spec: Spec, key: str, weight: float) -> Problem:
    """The problem with one weight of its penalty set."""
    agreement = sites.agreement
    shape = len(agreement.targets), np.array(agreement.unit)
    g = penalty(with_weight(spec, key, weight), agreement.features, *shape)
    return replace(sites.problem, g=g)


def empty_model(sites: ReadySites, spec: Spec, key: str, settings: Settings) -> Solved:
    """The best model without what `key` penalises."""
    return solve(problem_with(sites, spec, key, ENDLESS), sites.shards, settings, spec.seed)


def grid(sites: ReadySites, spec: Spec, choice: Choice, empty: Solved) -> np.ndarray:
    """Weights at equal ratios, down from the smallest that leaves an empty model."""
    gradient = empty.gradient.params.coef if isinstance(empty.gradient, Tree) else empty.gradient
    unit = np.array(sites.agreement.unit)
    by_unit = np.asarray(gradient) / unit[(slice(None),) + (None,) * (gradient.ndim - 1)]
    most = largest_useful_weight(choice.sweep, spec, sites.agreement.features, by_unit)
    if not most:
        raise InputError(
            f"the model is empty with any {choice.sweep}, even 0; check the target and the other "
            "penalties."
        )
    # A little above, so that rounding lets nothing in.
    return (1 + 1e-10) * most * np.geomspace(1.0, choice.ratio, choice.points)


def walk(
    sites: ReadySites,
    spec: Spec,
    key: str,
    weights: Sequence[float] | np.ndarray,
    empty: Solved,
    settings: Settings,
    watch: Callable[[int], None] = lambda done: None,
) -> list[Solved]:
    """One model after the other, each from the one before."""
    found, last = [], empty
    for done, weight in enumerate(weights, start=1):
        problem = problem_with(sites, spec, key, float(weight))
        last = solve(problem, sites.shards, settings, spec.seed, last.run)
        found.append(last)
        watch(done)
    return found
