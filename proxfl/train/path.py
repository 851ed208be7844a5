"""A regularisation path: models from the smallest weight that leaves none, down a grid of weights.

The empty model is solved for first, with its intercept and whatever is not penalised. Its gradient
gives the largest weight of interest. From there each model starts where the last one ended, since
all that the server knows of the loss stays true when only the penalty changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from proxfl.errors import InputError
from proxfl.losses import coef_of
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, stack
from proxfl.tables import Table
from proxfl.train.agreement import Agreement, agree, prepare, problem_of, summarise
from proxfl.train.choice import Choice
from proxfl.train.drivers.compiled import Solved, round_bytes, solve
from proxfl.train.model import Model
from proxfl.train.penalties import REGISTRY, Sweep
from proxfl.train.penalties.by_feature import repeated
from proxfl.train.regulariser import largest_useful_weight, penalty
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of

# A weight with which nothing penalised is in a model, whatever its gradient.
ENDLESS = 1e50
USUAL = Choice()


# The model with a weight; warm from another model, if there is one.
SolveAt = Callable[..., Solved]


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
        return self.spec.replace(**{self.key: float(self.weights[index])})


def path(
    spec: Spec,
    tables: Sequence[Table],
    choice: Choice = USUAL,
    weights: Sequence[float] | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> RegularisationPath:
    """The path along the weight of a choice: on its grid, or through the weights given."""
    spec = spec.replace(**{choice.sweep: 1.0}).read_files()  # any weight: the penalty is there
    with precision(np.float64):
        sites = ready(spec, tables)
        solve_at = along(sites, spec, choice.sweep)
        empty = solve_at(ENDLESS)
        given = grid(sites, spec, choice, empty) if weights is None else weights
        walked = walk(solve_at, given, empty, watch)
        traffic = round_bytes(sites.problem, sites.shards, settings_of(spec))
    return RegularisationPath(
        spec=spec,
        choice=choice,
        agreement=sites.agreement,
        weights=np.asarray(given, float),
        models=[Model.of(spec.loss, sites.agreement, solved.x) for solved in walked],
        loss=np.array([solved.loss for solved in walked]),
        objective=np.array([solved.objective for solved in walked]),
        optimality=np.array([solved.optimality for solved in walked]),
        converged=np.array([solved.converged for solved in walked]),
        rounds=np.array([len(solved.records) for solved in walked]),
        first_rounds=len(empty.records),
        round_bytes=traffic,
    )


def ready(spec: Spec, tables: Sequence[Table]) -> ReadySites:
    agreement = agree(spec, {table.name: summarise(table, spec) for table in tables})
    capacity = padded_size(max(table.rows for table in tables))
    shards = stacked(spec, tables, agreement, np.array(agreement.weights), capacity)
    return ReadySites(agreement, problem_of(spec, agreement), shards)


def padded_size(rows: int) -> int:
    """Rows, padding included: data of about the same size then share their programs.

    Up to 1024 the next power of two, 256 at least, where compiling costs more than padding; beyond
    it at most an eighth more.
    """
    power = max(256, 1 << (rows - 1).bit_length())
    step = power // 16 if power > 1024 else power
    return -(-rows // step) * step


def stacked(
    spec: Spec, tables: Sequence[Table], agreement: Agreement, weights: np.ndarray, capacity: int
) -> Shard:
    """Shards of so many rows each; a site without rows gets one of zeros, and has no weight."""
    examples = [prepare(table, spec, agreement) if table.rows else None for table in tables]
    nothing = next(tuple(np.zeros_like(a[:1]) for a in held) for held in examples if held)
    return stack([held or nothing for held in examples], weights, capacity, np.float64)


def along(sites: ReadySites, spec: Spec, key: str) -> SolveAt:
    """How to solve with one weight of the penalty set, all else as in the spec."""
    agreement, settings = sites.agreement, settings_of(spec)
    shape = agreement.features, len(agreement.targets), np.array(agreement.unit)

    def solve_at(weight: float, before: Solved | None = None) -> Solved:
        problem = replace(sites.problem, g=penalty(spec.replace(**{key: weight}), *shape))
        return solve(problem, sites.shards, settings, spec.seed, before and before.run)

    return solve_at


def grid(sites: ReadySites, spec: Spec, choice: Choice, empty: Solved) -> np.ndarray:
    """Weights at equal ratios, down from the smallest that leaves an empty model."""
    agreement = sites.agreement
    unit = repeated(np.array(agreement.unit), len(agreement.targets))
    by_unit = np.asarray(coef_of(empty.gradient)) / unit
    most = largest_useful_weight(choice.sweep, spec, agreement.features, by_unit)
    if not most:
        raise InputError(
            f"the model is empty with any {choice.sweep}, even 0; check the target and the other "
            "penalties."
        )
    # A little above, so that rounding lets nothing in.
    return (1 + 1e-10) * most * np.geomspace(1.0, choice.ratio, choice.points)


def walk(
    solve_at: SolveAt,
    weights: Sequence[float] | np.ndarray,
    empty: Solved,
    watch: Callable[[int], None] = lambda done: None,
) -> list[Solved]:
    """One model after the other, each from the one before."""
    found = [empty]
    for done, weight in enumerate(weights, start=1):
        found.append(solve_at(float(weight), found[-1]))
        watch(done)
    return found[1:]
