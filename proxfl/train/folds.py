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
import jax.numpy as jnp
import numpy as np

from proxfl.train.agreement import agree, prepare, problem_of, summarise
from proxfl.train.choice import Choice
from proxfl.train.path import RegularisationPath, Scene, empty_model, room, stacked, walk
from proxfl.train.train import settings_of
from proxfl.losses import Logistic, Softmax, scores
from proxfl.points import Point, Tree
from proxfl.precision import precision
from proxfl.problem.shards import Problem, Shard
from proxfl.spec import Spec
from proxfl.tables import InputError, Table
from proxfl.tables.labels import CLASSIFIERS


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
    accuracies: np.ndarray | None  # for classifiers
    parts: tuple[str, ...]  # what a model may hold: features, or directions of a low-rank one
    selected: np.ndarray  # [folds, weights, parts]
    rounds: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.shares @ self.losses

    @property
    def error(self) -> np.ndarray:
        """The standard error of the mean, from the spread between folds."""
        return spread(self.shares, self.losses)

    @property
    def accuracy(self) -> np.ndarray | None:
        return None if self.accuracies is None else self.shares @ self.accuracies

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


def spread(shares: np.ndarray, values: np.ndarray) -> np.ndarray:
    around = values - shares @ values
    return np.sqrt(shares @ around**2 / (len(shares) - 1))


def cross_validate(
    path: RegularisationPath,
    tables: Sequence[Table],
    watch: Callable[[int], None] = lambda done: None,
) -> Validation:
    """Score every weight of the path on rows that its models have not seen."""
    spec, dealt = path.spec, deal(path.spec, path.choice, tables)
    losses, right, selected, rounds = [], [], [], []
    with precision(np.float64):
        for done, fold in enumerate(dealt):
            seen, unseen = split(path, tables, fold)
            empty = empty_model(seen, spec, path.key, settings_of(spec))
            step = lambda k, done=done: watch(done * len(path.weights) + k)
            walked = walk(seen, spec, path.key, path.weights, empty, settings_of(spec), step)
            models = jax.tree.map(lambda *a: np.stack(a), *(solved.x for solved in walked))
            loss, hits = left_out(seen.problem, unseen, models)
            losses.append(np.asarray(loss))
            right.append(np.asarray(hits))
            selected.append([parts_in(solved.x, path.key) for solved in walked])
            rounds.append([len(solved.records) for solved in walked])
    return Validation(
        names=tuple(fold.name for fold in dealt),
        shares=np.array([share(path, fold) for fold in dealt]),
        losses=np.array(losses),
        accuracies=np.array(right) if spec.loss in CLASSIFIERS else None,
        parts=part_names(path),
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
    classes = np.unique(table.y, return_inverse=True)[1] if spec.loss in CLASSIFIERS else by_chance
    order = np.lexsort((by_chance, classes))
    # A random first fold, so that what is left over at small sites spreads over all folds.
    numbers = np.empty(table.rows, int)
    numbers[order] = (np.arange(table.rows) + rng.integers(folds)) % folds
    return numbers


def rows_of(table: Table, chosen: np.ndarray) -> Table:
    return replace(table, A=table.A[chosen], y=table.y[chosen])


def split(path: RegularisationPath, tables: Sequence[Table], fold: Fold) -> tuple[Scene, Shard]:
    """The sites with the rows a fold trains on, and those with the rows it is scored on.

    All folds have shards of one shape, so that they share their programs.
    """
    spec, full, capacity = path.spec, path.agreement, room(max(t.rows for t in tables))
    kept = [rows_of(table, ~out) for table, out in zip(tables, fold.out, strict=True)]
    told = {t.name: summarise(t, spec) | {"labels": full.classes} for t in kept if t.rows}
    if not told:
        raise InputError(f"{fold.name} leaves no row to train on; use fewer folds.")
    agreement = replace(agree(spec, told), classes=full.classes, targets=full.targets)
    held = [rows_of(table, out) for table, out in zip(tables, fold.out, strict=True)]
    ready = lambda some: [prepare(t, spec, agreement) if t.rows else None for t in some]
    weights = np.zeros(len(tables))
    weights[[t.rows > 0 for t in kept]] = agreement.weights
    train = stacked(ready(kept), weights, capacity)
    part = np.array(full.weights) * np.array([out.mean() for out in fold.out])
    test = stacked(ready(held), part / part.sum(), capacity)
    return Scene(agreement, problem_of(spec, agreement), train), test


def share(path: RegularisationPath, fold: Fold) -> float:
    """The weight that the rows left out have in the full objective."""
    return float(np.array(path.agreement.weights) @ [out.mean() for out in fold.out])


@jax.jit
def left_out(problem: Problem, shards: Shard, models: Point):
    """For each model, the mean loss of the shards' rows and the share it classifies rightly."""

    def one_model(x):
        def one_site(shard):
            A, y = shard.examples
            real = jnp.arange(A.shape[0], dtype=shard.size.dtype) < shard.size
            evenly = real.astype(A.dtype) / shard.size.astype(A.dtype)
            return evenly @ problem.loss(x, (A, y)), evenly @ hits(problem.loss, scores(x, A), y)

        loss, right = jax.vmap(one_site)(shards)
        return shards.weight @ loss, shards.weight @ right

    return jax.lax.map(one_model, models)


def hits(loss: Any, z, y):
    """1 for each row that a classifier with these scores gets right, 0 for the others."""
    if isinstance(loss, Logistic):
        return ((z > 0) == (y > 0)).astype(z.dtype)
    if isinstance(loss, Softmax):
        return (jnp.argmax(z, axis=1).astype(y.dtype) == y).astype(z.dtype)
    return jnp.zeros(z.shape[0], z.dtype)


def parts_in(x: Point, key: str) -> np.ndarray:
    """Which features a model uses, or how many directions a low-rank one has."""
    coef = np.asarray(x.params.coef if isinstance(x, Tree) else x)
    if key == "nuclear":
        values = np.linalg.svd(coef, compute_uv=False)
        return values > 1e-10 * max(values[0], np.finfo(float).tiny)
    return np.asarray(coef.reshape(len(coef), -1).any(axis=1))


def part_names(path: RegularisationPath) -> tuple[str, ...]:
    features, targets = path.agreement.features, path.agreement.targets
    if path.key == "nuclear":
        return tuple(f"direction {k + 1}" for k in range(min(len(features), len(targets))))
    return features
