"""Federated cross-validation of a path: no row leaves its site, and no site sees another's rows.

Folds are made in one of two ways:

    rows    each site deals its own rows, by class where there are classes, to as many folds;
    sites   each site is a fold: what would a site that took no part get from the model?

A fold's path is that of the other rows, along the same weights; features are standardised by the
other rows too. Its score is the mean loss of the rows left out, weighted as in the objective:
w_i mean_rows loss, so that the mean over folds weighs every row as the full objective does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.errors import InputError
from proxfl.losses import coef_of, scores
from proxfl.points import Point
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.tables import Table
from proxfl.train.agreement import agree, problem_of, summarise
from proxfl.train.choice import Choice
from proxfl.train.path import (
    ENDLESS,
    ReadySites,
    RegularisationPath,
    along,
    padded_size,
    stacked,
    walk,
)
from proxfl.train.spec import Spec, loss_of


class Fold(NamedTuple):
    """For each site, which of its rows are left out."""

    name: str
    out: list[np.ndarray]


@dataclass(frozen=True)
class Validation:
    """Scores of the rows left out: arrays run along the folds, then along the weights."""

    names: tuple[str, ...]
    shares: np.ndarray  # of each fold in the full objective
    losses: np.ndarray
    scores: dict[str, np.ndarray]  # others that the target has: accuracy, for classes
    parts: tuple[str, ...]  # what a model may hold
    selected: np.ndarray  # [folds, weights, parts]
    rounds: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.shares @ self.losses

    @property
    def error(self) -> np.ndarray:
        """The standard error of the mean, from the spread between folds."""
        return standard_error(self.shares, self.losses)

    @property
    def mean_scores(self) -> dict[str, np.ndarray]:
        return {name: self.shares @ values for name, values in self.scores.items()}

    @property
    def stability(self) -> np.ndarray:
        """The share of folds that select each part, [weights, parts]."""
        return self.selected.mean(axis=0)

    def chosen(self, rule: str) -> int:
        """Where the mean is least, or the largest weight within one standard error of that."""
        best = int(np.argmin(self.mean))
        if rule == "min":
            return best
        return int(np.argmax(self.mean <= self.mean[best] + self.error[best]))


def standard_error(shares: np.ndarray, values: np.ndarray) -> np.ndarray:
    around = values - shares @ values
    return np.sqrt(shares @ around**2 / (len(shares) - 1))


def cross_validate(
    path: RegularisationPath,
    tables: Sequence[Table],
    watch: Callable[[int], None] = lambda done: None,
) -> Validation:
    """Score every weight of the path on rows that its models have not seen."""
    spec, dealt = path.spec, deal(path.spec, path.choice, tables)
    parts, judged, selected, rounds = path.sweep.parts, [], [], []
    with precision(np.float64):
        for done, fold in enumerate(dealt):
            training, held_out = split(path, tables, fold)
            solve_at = along(training, spec, path.key)
            step = lambda k, done=done: watch(done * len(path.weights) + k)
            walked = walk(solve_at, path.weights, solve_at(ENDLESS), step)
            models = jax.tree.map(lambda *a: np.stack(a), *(solved.x for solved in walked))
            judged.append(left_out(training.problem, held_out, models))
            selected.append([parts.present(np.asarray(coef_of(solved.x))) for solved in walked])
            rounds.append([len(solved.records) for solved in walked])
    losses, scores = jax.tree.map(lambda *a: np.stack(a), *judged)
    return Validation(
        names=tuple(fold.name for fold in dealt),
        shares=np.array([share(path, fold) for fold in dealt]),
        losses=losses,
        scores=scores,
        parts=parts.names(path.agreement.features, len(path.agreement.targets)),
        selected=np.array(selected),
        rounds=np.array(rounds),
    )


def deal(spec: Spec, choice: Choice, tables: Sequence[Table]) -> list[Fold]:
    if choice.by == "sites":
        if len(tables) < 2:
            raise InputError("folds of sites need two sites or more; use folds of rows.")
        leave = lambda table, site: np.full(table.rows, table.name == site)
        return [Fold(t.name, [leave(table, t.name) for table in tables]) for t in tables]
    folds, most = choice.folds, max(table.rows for table in tables)
    if folds > most:
        raise InputError(
            f"folds must be at most {most}, the rows of the largest site, got {folds}; use fewer."
        )
    dealt = [deal_rows(spec, table, folds, site) for site, table in enumerate(tables)]
    return [Fold(f"fold {k + 1}", [numbers == k for numbers in dealt]) for k in range(folds)]


def deal_rows(spec: Spec, table: Table, folds: int, site: int) -> np.ndarray:
    """The fold of each row, at random but even, class by class."""
    rng = np.random.default_rng([spec.seed, site])
    by_chance = rng.permutation(table.rows)
    most = loss_of(spec).target.most
    classes = np.unique(table.y, return_inverse=True)[1] if most else by_chance
    order = np.lexsort((by_chance, classes))
    # A random first fold, so that what is left over at small sites spreads over all folds.
    numbers = np.empty(table.rows, int)
    numbers[order] = (np.arange(table.rows) + rng.integers(folds)) % folds
    return numbers


def rows_of(table: Table, chosen: np.ndarray) -> Table:
    return replace(table, A=table.A[chosen], y=table.y[chosen])


def split(
    path: RegularisationPath, tables: Sequence[Table], fold: Fold
) -> tuple[ReadySites, Shard]:
    """The sites with the rows a fold trains on, and those with the rows it is scored on.

    All folds have shards of one shape, so that they share their programs.
    """
    spec, full, capacity = path.spec, path.agreement, padded_size(max(t.rows for t in tables))
    kept = [rows_of(table, ~out) for table, out in zip(tables, fold.out, strict=True)]
    told = {t.name: summarise(t, spec) | {"labels": full.classes} for t in kept if t.rows}
    if not told:
        raise InputError(f"{fold.name} leaves no row to train on; use fewer folds.")
    agreement = replace(agree(spec, told), classes=full.classes, targets=full.targets)
    held = [rows_of(table, out) for table, out in zip(tables, fold.out, strict=True)]
    weights = np.zeros(len(tables))
    weights[[t.rows > 0 for t in kept]] = agreement.weights
    train = stacked(spec, kept, agreement, weights, capacity)
    part = np.array(full.weights) * np.array([out.mean() for out in fold.out])
    test = stacked(spec, held, agreement, part / part.sum(), capacity)
    return ReadySites(agreement, problem_of(spec, agreement), train), test


def share(path: RegularisationPath, fold: Fold) -> float:
    """The weight that the rows left out have in the full objective."""
    return float(np.array(path.agreement.weights) @ [out.mean() for out in fold.out])


@jax.jit
def left_out(problem: Problem, shards: Shard, models: Point):
    """For each model, the mean loss of the shards' rows, and the mean of its target's scores."""
    loss: Any = problem.loss
    others = loss.target.scores

    def one_model(x):
        def one_site(shard):
            A, y = shard.examples
            evenly = shard.row_weights(A.dtype)
            judged = {name: evenly @ of(scores(x, A), y) for name, of in others.items()}
            return problem.objective(shard).value(x), judged

        return jax.tree.map(lambda sites: shards.weight @ sites, jax.vmap(one_site)(shards))

    return jax.lax.map(one_model, models)
