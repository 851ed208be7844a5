"""Models of times until an event: what they predict, and how good that is."""

from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.errors import InputError
from proxfl.losses.base import padded
from proxfl.losses.scores.cells import CELLS, cell_of
from proxfl.losses.scores.grouped import in_groups, ratio
from proxfl.losses.scores.scorecards import Rows, Scorecard
from proxfl.losses.survival.concordance import concordance
from proxfl.losses.survival.outcomes import Outcome, outcome
from proxfl.losses.survival.recalibrated import SLOPES, derivatives, root
from proxfl.losses.survival.risk import expected, risk_of
from proxfl.losses.targets import Target, refuse
from proxfl.options import Option
from proxfl.options.kinds import TEXT, optional


class OfSurvival(Scorecard):
    """Pairs are those within a site, and hazards those of the site, from these very rows.

    Calibration: events are set against those expected while each row was observed, by the score
    relative to the mean of the site; and the slope of a Cox model of the score (`recalibrated.py`).
    """

    only_of_curves = frozenset({"cells"})

    def sums(self, rows, threshold):
        z = rows.z - rows.weight @ rows.z / rows.weight.sum()
        hoped = np.asarray(expected_of(*padded(z, rows.y, rows.weight)))[: len(z)]
        seen = np.where(rows.y.event, rows.weight, 0.0)
        cells = [np.bincount(cell_of(z), held, CELLS) for held in (rows.weight, hoped, seen)]
        whole = self.drawn(rows, rows.weight[None], threshold)
        return {name: numbers[0] for name, numbers in whole.items()} | {"cells": np.array(cells)}

    def drawn(self, rows, weights, threshold):
        slopes = {"slopes": derivatives(rows.z, rows.y, weights)}
        return counted_pairs(rows, weights) | slopes

    def rank_sums(self, rows):
        return {name: pairs[0] for name, pairs in counted_pairs(rows, rows.weight[None]).items()}

    def scores(self, sums):
        return self.ranks(sums) | {"calibration_slope": root(SLOPES, sums["slopes"])}

    def ranks(self, sums):
        return {"concordance": ratio(sums["right"], sums["pairs"])}

    def curves(self, sums):
        rows, expected, events = sums["cells"]
        return {"calibration": in_groups(rows, expected, events)}


@jax.jit
def expected_of(z: Any, y: Outcome, weight: Any) -> Any:
    return expected(risk_of(z, y, weight), y, jnp.where(y.event, weight, 0.0))


pairs_of = jax.jit(jax.vmap(concordance, (None, None, 0)))


def counted_pairs(rows: Rows, weights: np.ndarray) -> dict[str, np.ndarray]:
    """The pairs that are in the right order and all that are compared, of each of the weights."""
    z, y, _ = padded(rows.z, rows.y, rows.weight)
    weights = np.pad(weights, ((0, 0), (0, len(z) - len(rows.z))))
    return dict(zip(("right", "pairs"), jax.device_get(pairs_of(z, y, weights)), strict=True))


class Survival(Target):
    """A time, 1 or 0 for whether an event ended it, and the time of entry if rows enter late."""

    words, remedy, most = "times with events", "make them with proxfl.losses.outcome", 0
    options = (
        Option("time", optional(TEXT), "the column of times until the event or the end", None),
        Option(
            "event", optional(TEXT), "the column that is 1 where the event happened, else 0", None
        ),
        Option("entry", optional(TEXT), "the column of times from which rows were observed", None),
    )
    needed = ("time", "event")
    scores = MappingProxyType({})
    scorecard = OfSurvival()

    def accepts(self, y):
        return isinstance(y, Outcome)

    def complaint(self, y, loss):
        return None if self.accepts(y) else f"{loss} needs {self.words} for labels; {self.remedy}."

    def misfit(self, y, coef, loss):
        if coef.ndim == 1:
            return None
        return f"{loss} needs one score per row, got coefficients of shape {coef.shape}."

    def encoded(self, rows, outputs):
        made = outcome(np.ones(rows), np.ones(rows))
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), made)

    def encode(self, column, classes, loss):
        time, event, *entry = column.y.T
        names = column.target
        refuse(column, ~(time > 0), "is not positive", "correct it or drop the row", names[0])
        odd = (event != 0) & (event != 1)
        refuse(column, odd, "is neither 0 nor 1", "write 1 for an event, 0 for none", names[1])
        if entry:
            late = ~(entry[0] < time)
            refuse(column, late, "is not before the time", "correct it or drop the row", names[2])
        return outcome(time, event, *entry)

    def tells_nothing(self, column):
        if column.y[:, 1].any():
            return None
        where = f"{column.source}: column {column.target[1]!r} is 0 in all {len(column.y)} rows"
        return f"{where}, so the site tells nothing of hazards; leave the site out."

    def tally(self, y):
        events = int(y[:, 1].sum())
        return {"events": events, "censored": len(y) - events, "mean time": float(y[:, 0].mean())}

    def strata(self, y):
        return y[:, 1]

    def outputs(self, target, columns, classes):
        return (" and ".join(target[:2]),)

    def predicted(self, z, mean, classes):
        return mean(z)

    def labels(self, y):
        """Whether there are events, and whether there is anything else."""
        return tuple(int(value) for value in np.unique(y[:, 1]) if value in (0, 1))

    def merge(self, found, loss, declared=()):
        told = [site for site in found if site]  # under masks none is
        if told and not any(1 in site for site in told):
            raise InputError(
                f"The event is 1 in no row of any site and {loss} needs events; check the column."
            )
        return ()


SURVIVAL = Survival()
