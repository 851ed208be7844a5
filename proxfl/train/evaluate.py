"""How good a model is at sites, from sums over their rows.

A site's part is `site_sums`: arrays that add up over sites, of its rows or of a draw of them with
replacement. `scored` is a function of the total alone. In a draw each site draws its own rows, so
an interval is one for these sites. Over files draws are by seed, of as many rows each; a real site
keeps its draws to itself (`proxfl/deploy/site/draws.py`).
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.errors import InputError
from proxfl.losses.base import padded
from proxfl.losses.scores.grouped import Curve, Sums, ratio
from proxfl.losses.scores.scorecards import Rows, Scorecard
from proxfl.precision import precision
from proxfl.tables import Table
from proxfl.tables.formats import Source
from proxfl.train.applied import Applied, SiteRows, as_arrays

Scores = dict[str, int | float]
MOST_DRAWS = 10_000
LEVEL = 0.95  # of the intervals
TOGETHER = 25  # draws that are summed at once

total_loss = jax.jit(lambda loss, z, y, counts: loss.of_rows(z, y, counts), static_argnums=0)


def site_sums(loss: Any, rows: SiteRows, threshold: float) -> Sums:
    """What a site tells: arrays to add to those of other sites."""
    card = loss.target.scorecard
    with precision(np.float64), far_off():
        own = card.sums(Rows(rows.z, rows.y, rows.mean, rows.counts), threshold)
        means = losses_of(loss, rows, np.ones((1, len(rows.counts))))
    return {name: one[0] for name, one in means.items()} | own


def drawn_sums(loss: Any, rows: SiteRows, draws: np.ndarray, threshold: float) -> Sums:
    """The same of draws [draws, rows], but for what only curves are of."""
    card = loss.target.scorecard
    with precision(np.float64), far_off():
        each = Rows(rows.z, rows.y, rows.mean, rows.counts)
        own = card.drawn(each, rows.counts * draws, threshold)
        told = losses_of(loss, rows, draws)
    means = {name: card.rounded(told[name], rows.counts) for name in ("loss", "deviance")}
    return told | means | own


def far_off() -> Any:
    """Models that are far off have infinite losses."""
    return np.errstate(over="ignore")


def losses_of(loss: Any, rows: SiteRows, draws: np.ndarray) -> dict[str, np.ndarray]:
    """How many rows each draw has, and the sums over them of weights, loss and deviance."""
    weights = rows.counts * draws
    each = [total_loss(loss, *as_arrays(padded(rows.z, rows.y, weight))) for weight in weights]
    value, above = np.array(each, float).T
    totals = {"rows": draws.sum(axis=1), "weight": weights.sum(axis=1)}
    return totals | {"loss": value, "deviance": 2 * above}


class EvaluationSums(NamedTuple):
    """What a site tells of a model: sums over its rows, and over each draw of them, drawn first.

    Of draws there is nothing that only curves are of, and without draws nothing at all.
    """

    sums: dict[str, Any]
    drawn: dict[str, Any]


Draw = Callable[[int, int], np.ndarray]  # of so many rows, how often each is in a draw


def tell(applied: Applied, table: Table, draw: Draw, how: "How") -> EvaluationSums:
    """A site's whole part of an evaluation."""
    loss, rows = applied.loss, applied.rows(table)
    sums = site_sums(loss, rows, how.threshold)
    parts = []
    for first in range(0, how.draws, TOGETHER):
        numbers = range(first, min(first + TOGETHER, how.draws))
        draws = np.stack([draw(len(rows.counts), number) for number in numbers])
        parts.append(drawn_sums(loss, rows, draws, how.threshold))
    joined = lambda *arrays: np.concatenate(arrays)
    drawn = jax.tree.map(joined, *parts) if parts else {}
    return EvaluationSums({name: np.asarray(value) for name, value in sums.items()}, drawn)


class How(NamedTuple):
    """From which probability a row is called positive, and the draws of which intervals are."""

    threshold: float = 0.5
    draws: int = 200
    seed: int = 0


def added(sites: Iterable[Sums]) -> dict[str, Any]:
    """The sums of several sites together."""
    return jax.tree.map(lambda *arrays: np.sum(arrays, axis=0), *sites)


def scored(card: Scorecard, sums: Sums) -> Scores:
    """The scores of rows, from their sums alone; loss and deviance are means over rows."""
    means = {name: ratio(sums[name], sums["weight"]) for name in ("loss", "deviance")}
    with np.errstate(divide="ignore", invalid="ignore"):  # rows that weigh nothing
        return {"rows": int(sums["rows"]), **means, **card.scores(sums)}


class Judged(NamedTuple):
    """Scores with their intervals, and curves, of one site or of all."""

    scores: Scores
    intervals: dict[str, tuple[float, float]]
    curves: dict[str, Curve]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: null where the rows do not tell."""
        known = lambda value: value if np.isfinite(value) else None
        pairs = {name: [known(end) for end in ends] for name, ends in self.intervals.items()}
        return {name: known(value) for name, value in self.scores.items()} | {"intervals": pairs}


@dataclass(frozen=True)
class Evaluation:
    """Of so many sites; `sites` is empty where they told sums over all of them only."""

    overall: Judged
    sites: dict[str, Judged]
    number: int

    def all(self) -> dict[str, Judged]:
        """By name, all sites together first."""
        return {"overall": self.overall, **self.sites}


def evaluate(
    applied: Applied,
    files: Sequence[Source],
    threshold: float = 0.5,
    draws: int = 200,
    seed: int = 0,
) -> Evaluation:
    """Score a model on files, one per site; intervals are from that many draws of rows."""
    tables = [applied.table(file) for file in files]
    how = How(threshold, draws, seed)
    told = ((t.name, tell(applied, t, by_seed(t.name, seed), how)) for t in tables)
    return evaluated(applied.loss.target.scorecard, told)


def evaluated(card: Scorecard, told: Iterable[tuple[str, EvaluationSums]]) -> Evaluation:
    """What the sums of sites come to, near or far; those of one site at a time are held."""
    total, sites = None, {}
    for site, one in told:
        sites[site] = judged_by(card, one)
        total = one if total is None else EvaluationSums(*map(added, zip(total, one, strict=True)))
    if total is None:
        raise InputError("There are no sites; name at least one file or folder.")
    return Evaluation(judged_by(card, total), sites, len(sites))


def each_draw(drawn: Sums) -> list[dict[str, Any]]:
    number = min((len(values) for values in drawn.values()), default=0)
    return [{name: values[draw] for name, values in drawn.items()} for draw in range(number)]


def by_seed(site: str, seed: int) -> Draw:
    """Draws of as many rows as a site has, with replacement, which anybody can repeat."""

    def draw(rows: int, number: int) -> np.ndarray:
        rng = np.random.default_rng([seed, zlib.crc32(site.encode()), number])
        return np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(float)

    return draw


def judged_by(card: Scorecard, total: EvaluationSums) -> Judged:
    return judged(card, total.sums, [scored(card, draw) for draw in each_draw(total.drawn)])


def judged(card: Scorecard, sums: Sums, drawn: Sequence[Scores]) -> Judged:
    scores, tail = scored(card, sums), 50 * (1 - LEVEL)
    uncertain = [name for name in scores if name not in ("rows", "auc_resolution")]
    intervals = {}
    for name in uncertain if drawn else ():
        found = np.array([draw[name] for draw in drawn])
        known = found[np.isfinite(found)]
        ends = np.percentile(known, [tail, 100 - tail]) if known.size else np.full(2, np.nan)
        intervals[name] = (float(ends[0]), float(ends[1]))
    return Judged(scores, intervals, card.curves(sums))
