"""By how much the scores of a survival model are too small: the slope of a Cox model of the score.

Of a Cox model of the score alone, stratified by site, the slope is where the derivative of the loss
is 0. At a slope s a site's derivative is the sum, over events, of the mean score of those at risk,
by weights exp(s z), less the score of the row itself. Each site tells it at the `SLOPES`, so that
it can be added over sites; between two of them, it is on a cubic spline.
"""

from typing import Any, NamedTuple, cast

import numpy as np

from proxfl.losses.survival.outcomes import Outcome, inverse

SLOPES = np.r_[-4:0:0.25, 0:2:0.0625, 2:12.5:0.5]  # it bends most between 0 and 2
WIDEST = 600.0  # of s z at a site: the numbers exp(s z) of its rows are then none of them 0


class AtRisk(NamedTuple):
    """Sums over those at risk at each of some events, for many weights: [events, draws]."""

    rows: np.ndarray  # the latest first
    last: np.ndarray
    weights: np.ndarray  # [rows, draws]

    @classmethod
    def of(cls, rank: Any, last: np.ndarray, weights: np.ndarray) -> "AtRisk":
        rows = inverse(np.asarray(rank))
        return cls(rows, last, weights.T[rows])

    def total(self, values: np.ndarray) -> np.ndarray:
        sums = np.zeros((len(values) + 1, self.weights.shape[1]))
        np.cumsum(self.weights * values[self.rows, None], axis=0, out=sums[1:])
        return sums[self.last]


def derivatives(z: np.ndarray, y: Outcome, weights: np.ndarray) -> np.ndarray:
    """At each slope, of the same rows with each of several weights: [draws, slopes].

    Where scores are so far apart that numbers would not hold exp(s z), the slope is taken that is
    the next to 0 which they hold.
    """
    event = np.flatnonzero(y.event)
    own, widest = weights.T[event], np.ptp(z)
    there = AtRisk.of(y.rank, np.asarray(y.last)[event] + 1, weights)
    waiting = y.entered and AtRisk.of(y.entered.rank, np.asarray(y.entered.later)[event], weights)
    steepest = WIDEST / widest if widest > 0 else np.inf
    found = np.empty((len(weights), len(SLOPES)))
    for place, slope in enumerate(np.clip(SLOPES, -steepest, steepest)):
        relative = np.exp(slope * z - (slope * z).max())
        everyone, scores = there.total(relative), there.total(relative * z)
        if waiting:
            everyone, scores = (
                everyone - waiting.total(relative),
                scores - waiting.total(relative * z),
            )
            everyone = np.maximum(everyone, own * relative[event, None])  # but for rounding it is
        mean = np.divide(scores, everyone, out=np.zeros_like(scores), where=own > 0)
        found[:, place] = np.sum(own * np.clip(mean, z.min(), z.max()), axis=0) - z[event] @ own
    return found


def root(slopes: np.ndarray, rising: np.ndarray) -> float:
    """Where values that rise with slopes are 0; NaN outside of these."""
    if not rising[0] < 0 <= rising[-1]:
        return float("nan")
    from scipy.interpolate import CubicSpline  # here: imports for which no training waits
    from scipy.optimize import brentq

    after = int(np.argmax(rising >= 0))
    return cast(float, brentq(CubicSpline(slopes, rising), slopes[after - 1], slopes[after]))
