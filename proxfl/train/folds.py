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
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from proxfl.engine.messages import message_bytes
from proxfl.errors import InputError
from proxfl.losses import coef_of
from proxfl.losses.scores.scorecards import Rows
from proxfl.points import Point
from proxfl.precision import precision
from proxfl.problem import Shard
from proxfl.tables import Table
from proxfl.train.agreement import (
    Agreement,
    agree,
    agreement_bytes,
    problem_of,
    row_counts,
    shards_for,
    summarise,
)
from proxfl.train.choice import Choice
from proxfl.train.local import Traffic
from proxfl.train.path import RegularisationPath, course_of, padded_size, ready
from proxfl.train.spec import Spec, loss_of
from proxfl.train.tasks import rows_at
from proxfl.train.walk import PathPoint, ReadySites, walk


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
    traffic: Traffic  # of the scores

    @property
    def mean(self) -> np.ndarray:
        return self.shares @ self.losses

    @property
    def error(self) -> np.ndarray:
        """The standard error of the mean, from the spread between folds."""
        return standard_error(self.shares, self.losses)

    @property
    def mean_scores(self) -> dict[str, np.ndarray]:
        """Over the folds whose rows tell; NaN if none do."""
        known = {name: np.isfinite(values) for name, values in self.scores.items()}
        mean = lambda values, told: (
            (self.shares @ np.where(told, values, 0.0))
            / np.where(told.any(axis=0), self.shares @ told, np.nan)
        )
        return {name: mean(values, known[name]) for name, values in self.scores.items()}

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


def path_with_folds(
    spec: Spec,
    tables: Sequence[Table],
    choice: Choice,
    watch: Callable[[int], None] = lambda done: None,
) -> tuple[RegularisationPath, Validation]:
    """A path and its cross-validation, which share exchanges where the method can."""
    spec = spec.replace(**{choice.sweep: 1.0}).read_files()  # any weight: the penalty is there
    dealt = deal(spec, choice, tables)
    with precision(np.float64):
        sites = ready(spec, tables)
        training, held_out = split_all(spec, sites.agreement, tables, dealt)
        course = course_of(sites.agreement, spec, choice)
        walked = walk([sites, *training], course, watch)
        path = RegularisationPath.of(spec, choice, sites.agreement, walked)
        return path, scored(path, tables, dealt, training, held_out, walked.found[1:])


def scored(
    path: RegularisationPath,
    tables: Sequence[Table],
    dealt: Sequence[Fold],
    training: Sequence[ReadySites],
    held_out: Sequence[Shard],
    walked: Sequence[Sequence[PathPoint]],
) -> Validation:
    """What the models of each fold are worth on the rows left out; one exchange tells it."""
    judged = []
    for sites, held, found in zip(training, held_out, walked, strict=True):
        models = jax.tree.map(lambda *a: np.stack(a), *(one.x for one in found))
        losses, means = left_out(sites, held, models)
        ranks = [ranked(sites, held, one.x) for one in found]
        judged.append((losses, means | {n: np.array([r[n] for r in ranks]) for n in ranks[0]}))
    models, sites = [one.x for found in walked for one in found], len(path.agreement.sites)
    told = jax.tree.map(lambda *a: np.stack(a), *judged)
    scoring = Traffic(1, sites * message_bytes(told), sites * message_bytes(models))
    shares = np.array([share(path, tables, fold) for fold in dealt])
    names = tuple(fold.name for fold in dealt)
    return validation(path, names, shares, judged, walked, scoring)


def validation(
    path: RegularisationPath,
    names: tuple[str, ...],
    shares: np.ndarray,
    judged: Sequence[tuple[Any, dict[str, Any]]],
    walked: Sequence[Sequence[PathPoint]],
    traffic: Traffic,
) -> Validation:
    """From each fold's losses and other scores along the weights, and its models."""
    parts = path.sweep.parts
    losses, scores = jax.tree.map(lambda *a: np.stack(a), *judged)
    selected = [[parts.present(np.asarray(coef_of(one.x))) for one in each] for each in walked]
    return Validation(
        names=names,
        shares=shares,
        losses=losses,
        scores=scores,
        parts=parts.names(path.agreement.features, len(path.agreement.targets)),
        selected=np.array(selected),
        rounds=np.array([[one.rounds for one in found] for found in walked]),
        traffic=traffic,
    )


def names_of(choice: Choice, sites: Sequence[str]) -> tuple[str, ...]:
    """What folds are called."""
    if choice.by == "sites":
        return tuple(sites)
    return tuple(f"fold {k + 1}" for k in range(choice.folds))


def deal(spec: Spec, choice: Choice, tables: Sequence[Table]) -> list[Fold]:
    if choice.by == "sites":
        refuse_sites(spec, len(tables))
    folds, most = choice.folds, max(table.rows for table in tables)
    if choice.by == "rows" and folds > most:
        raise InputError(
            f"folds must be at most {most}, the rows of the largest site, got {folds}; use fewer."
        )
    dealt = [deal_at(spec, choice, table, site) for site, table in enumerate(tables)]
    names = names_of(choice, [table.name for table in tables])
    return [Fold(name, [numbers == k for numbers in dealt]) for k, name in enumerate(names)]


def refuse_sites(spec: Spec, sites: int) -> None:
    """Refuse folds of sites where they mean nothing."""
    if sites < 2:
        raise InputError("folds of sites need two sites or more; use folds of rows.")
    if spec.site_intercepts:
        raise InputError("a site that is left out has no intercept of its own; use folds of rows.")


def deal_at(spec: Spec, choice: Choice, table: Table, site: int) -> np.ndarray:
    """The fold of each row of one site, by the site's place among all."""
    if choice.by == "sites":
        return np.full(table.rows, site)
    return deal_rows(spec, table, choice.folds, site)


def deal_rows(spec: Spec, table: Table, folds: int, site: int) -> np.ndarray:
    """The fold of each row, at random but even, class by class."""
    rng = np.random.default_rng([spec.seed, site])
    by_chance = rng.permutation(table.rows)
    strata = np.unique(loss_of(spec).target.strata(table.y), return_inverse=True)[1]
    order = np.lexsort((by_chance, strata))
    # A random first fold, so that what is left over at small sites spreads over all folds.
    numbers = np.empty(table.rows, int)
    numbers[order] = (np.arange(table.rows) + rng.integers(folds)) % folds
    return numbers


def split_all(
    spec: Spec, full: Agreement, tables: Sequence[Table], dealt: Sequence[Fold]
) -> tuple[list[ReadySites], list[Shard]]:
    """The sites with the rows each fold trains on, and those with the rows it is scored on."""
    pairs = [split(spec, full, tables, fold) for fold in dealt]
    return [training for training, _ in pairs], [held for _, held in pairs]


def split(
    spec: Spec, full: Agreement, tables: Sequence[Table], fold: Fold
) -> tuple[ReadySites, Shard]:
    """All folds have shards of one shape, so that they share their programs."""
    capacity = padded_size(max(t.rows for t in tables))
    kept = [table.only(~out) for table, out in zip(tables, fold.out, strict=True)]
    same = {"labels": full.classes} if full.classes else {}
    told = {t.name: summarise(t, spec) | same for t in kept if t.rows}
    if not told or (spec.site_intercepts and len(told) < len(tables)):
        at = "" if not told else " at a site, and so no intercept of its own"
        raise InputError(f"{fold.name} leaves no row to train on{at}; use fewer folds.")
    agreement = replace(agree(spec, told), classes=full.classes, targets=full.targets)
    held = [table.only(out) for table, out in zip(tables, fold.out, strict=True)]
    weights = np.zeros(len(tables))
    weights[[t.rows > 0 for t in kept]] = agreement.weights
    train = shards_for(spec, kept, agreement, weights, capacity)
    part = np.array(full.weights) * parts_out(spec, tables, fold)
    test = shards_for(spec, held, agreement, part / part.sum(), capacity)
    problem = problem_of(spec, agreement)
    return ReadySites(agreement, problem, train, agreement_bytes(told, agreement)), test


def parts_out(spec: Spec, tables: Sequence[Table], fold: Fold) -> np.ndarray:
    """Of each site, the part of its rows that is left out, by how much they count."""
    counts = [row_counts(table, spec) for table in tables]
    return np.array([n @ out / n.sum() for n, out in zip(counts, fold.out, strict=True)])


def share(path: RegularisationPath, tables: Sequence[Table], fold: Fold) -> float:
    """The weight that the rows left out have in the full objective."""
    return float(np.array(path.agreement.weights) @ parts_out(path.spec, tables, fold))


def ranked(training: ReadySites, held_out: Shard, x: Point) -> dict[str, float]:
    """Scores of the rows left out that are no means over rows, such as areas under curves."""
    loss: Any = training.problem.loss
    card, z = loss.target.scorecard, np.asarray(scores_left_out(loss, training.shards, held_out, x))
    sums = []
    for i in np.flatnonzero(held_out.weight):
        shard = jax.tree.map(lambda a, i=i: np.asarray(a[i]), held_out)
        own = jax.tree.map(lambda a, n=int(shard.size): a[:n], (z[i], shard.examples[1]))
        counts = np.ones(shard.size) if shard.counts is None else shard.counts[: shard.size]
        sums.append(card.rank_sums(Rows(own[0], own[1], loss.mean(own[0]), counts)))
    return card.ranks(jax.tree.map(lambda *a: np.sum(a, axis=0), *sums))


@partial(jax.jit, static_argnames="loss")
def scores_left_out(loss: Any, trained: Shard, shards: Shard, x: Point) -> Any:
    one = lambda before, shard: rows_at(shard, x)[0] + loss.level(*rows_at(before, x))
    return jax.vmap(one)(trained, shards)


def left_out(training: ReadySites, held_out: Shard, models: Point):
    """For each model, the mean loss of the rows left out, and the mean of its target's scores."""
    return judged_by(cast(Any, training.problem.loss), training.shards, held_out, models)


@partial(jax.jit, static_argnames="loss")
def judged_by(loss: Any, trained: Shard, shards: Shard, models: Point):
    others = loss.target.scores

    def one_model(x):
        def one_site(before, shard):
            z, *about = rows_at(shard, x)
            z = z + loss.level(*rows_at(before, x))
            y, weights = about
            means = {name: weights @ of(z, y) for name, of in others.items()}
            return loss.of_new_rows.at(z, y, weights), means

        mean = lambda sites: shards.weight @ sites
        return jax.tree.map(mean, jax.vmap(one_site)(trained, shards))

    return jax.lax.map(one_model, models)
