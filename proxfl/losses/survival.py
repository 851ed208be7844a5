"""Models of times until an event: what they predict, and how good that is."""

from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.errors import InputError
from proxfl.losses.base import padded
from proxfl.losses.concordance import concordance
from proxfl.losses.outcomes import Outcome, outcome
from proxfl.losses.risk import expected, risk_of
from proxfl.losses.scorecards import CELLS, Scorecard, cell_of, in_groups, ratio
from proxfl.losses.targets import Target, refuse
from proxfl.options import Option
from proxfl.options.kinds import TEXT, optional

# Where the slope of calibration is looked for; between two of these, on a line.
SLOPES = np.linspace(-4.0, 12.0, 321)


class OfSurvival(Scorecard):
    """Pairs are those within a site, and hazards those of the site, from these very rows.

    Calibration: events are set against those expected while each row was observed, by the score
    relative to the mean of the site; and the slope of a Cox model of the score alone is where the
    derivative of its loss, told at the `SLOPES`, is 0.
    """

    def sums(self, rows, threshold):
        z = rows.z - rows.weight @ rows.z / rows.weight.sum()
        told = jax.device_get(judged(*padded(z, rows.y, rows.weight)))
        expected = told.pop("expected")[: len(z)]
        seen = np.where(rows.y.event, rows.weight, 0.0)
        cells = [np.bincount(cell_of(z), held, CELLS) for held in (rows.weight, expected, seen)]
        return told | {"cells": np.array(cells)}

    def needed(self, sums):
        return {"cells": np.zeros(np.shape(sums["cells"]), bool)}

    def rank_sums(self, rows) -> dict[str, Any]:
        return dict(zip(PAIRS, counted_pairs(*padded(rows.z, rows.y, rows.weight)), strict=True))

    def scores(self, sums):
        return self.ranks(sums) | {"calibration_slope": root(SLOPES, sums["slopes"])}

    def ranks(self, sums):
        return {"concordance": ratio(sums["right"], sums["pairs"])}

    def curves(self, sums):
        rows, expected, events = sums["cells"]
        return {"calibration": in_groups(rows, expected, events)}


PAIRS = ("right", "pairs")
counted_pairs = jax.jit(concordance)


@jax.jit
def judged(z: Any, y: Outcome, weight: Any) -> dict[str, Any]:
    counted = dict(zip(PAIRS, concordance(z, y, weight), strict=True))
    events = jnp.where(y.event, weight, 0.0)
    expected_at = lambda slope: expected(risk_of(slope * z, y, weight), y, events)
    slope_at = lambda slope: z @ (expected_at(slope) - events)
    slopes = jax.lax.map(slope_at, jnp.asarray(SLOPES, z.dtype))
    return counted | {"slopes": slopes, "expected": expected_at(1.0)}


def root(places: np.ndarray, rising: np.ndarray) -> float:
    """Where values that rise along the places are 0, on the line between two; NaN outside."""
    if not rising[0] < 0 <= rising[-1]:
        return float("nan")
    return float(np.interp(0.0, rising, places))


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
