"""Medians over draws with intervals that assume nothing of the distribution."""

from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


def median_interval(values: Any) -> tuple[float, float, float]:
    """The median and its 95 % interval from order statistics; the range if draws are too few."""
    ordered = np.sort(
        np.nan_to_num(np.asarray(values, float), nan=np.inf, posinf=np.inf)
    )  # never over never
    n = len(ordered)
    below = max(int(stats.binom.ppf((1 - CONFIDENCE) / 2, n, 0.5)) - 1, 0)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2  # NumPy's warns at infinity
    return float(middle), float(ordered[below]), float(ordered[n - 1 - below])


def with_interval(values: Any) -> str:
    middle, low, high = median_interval(values)
    if low == middle == high:  # one value, or the same in all draws
        return f"{middle:.3g}"
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def share_interval(true: int, draws: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""
    found = stats.binomtest(true, draws).proportion_ci(CONFIDENCE)
    return float(found.low), float(found.high)
