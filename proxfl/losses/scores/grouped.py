"""What was predicted and what was seen in groups of rows: points of curves, which sites add up.

No group has fewer than `FEWEST` rows, if there are as many. Those of probabilities are made of the
cells that all sites share. Numbers have no such cells, since nobody knows how large they are, so
each site makes the groups of its own rows: up to ten, by what is predicted for them. The lowest
tenths of all sites are then added, and so on.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Sums = Mapping[str, Any]  # numbers and arrays, which add up over sites
Curve = dict[str, list[Any]]  # a table by column

GROUPS, FEWEST = 10, 20  # of a curve at most, and rows of each at least
SAME = 1e-9  # relative: predictions of equal rows may differ in their last digits


def ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole > 0 else float("nan")


def in_groups(rows: np.ndarray, predicted: np.ndarray, observed: np.ndarray) -> Curve:
    """Groups of cells of about as many rows each: what was predicted and seen, per row."""
    middle, total = np.cumsum(rows) - rows / 2, rows.sum()
    groups = int(np.clip(total // FEWEST, 1, GROUPS))
    group = np.minimum((groups * middle / max(total, 1)).astype(int), groups - 1)
    add = lambda values: np.bincount(group, values, groups)
    counts = add(rows)
    held = counts > 0
    mean = lambda values: (add(values)[held] / counts[held]).tolist()
    return {
        "predicted": mean(predicted),
        "observed": mean(observed),
        "rows": counts[held].tolist(),
    }


def tenths(y: np.ndarray, mean: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Of each tenth of a site's rows: their weight, and sums of what was predicted, what was seen,
    and the squares of the difference."""
    order = np.argsort(mean, kind="stable")
    order = order[weight[order] > 0]
    y, mean, w = y[order], mean[order], weight[order]
    with np.errstate(over="ignore", invalid="ignore"):  # models that are far off
        parts = np.stack([w, w * mean, w * y, w * (y - mean) ** 2], axis=1)
    made, before = np.zeros((GROUPS, parts.shape[1])), np.append(0.0, np.cumsum(w))
    ends = ends_of(mean, before) if len(w) else []
    for start, end in zip([0, *ends], ends, strict=False):
        middle = (before[start] + before[end]) / (2 * before[-1])
        made[int(GROUPS * middle)] += parts[start:end].sum(axis=0)
    return made


def ends_of(mean: np.ndarray, before: np.ndarray) -> list[int]:
    """Where groups of ascending predictions end: rows of the same prediction stay together."""
    with np.errstate(invalid="ignore"):
        apart = np.flatnonzero(np.diff(mean) > SAME * np.abs(mean[1:])) + 1
    edges = np.r_[0, apart, len(mean)]
    middle = (before[edges[1:]] + before[edges[:-1]]) / (2 * before[-1])
    groups = np.clip(len(mean) // FEWEST, 1, GROUPS)
    ends, start = [], 0
    for end in apart[np.diff((groups * middle).astype(int)) > 0].tolist():
        if min(end - start, len(mean) - end) >= FEWEST:
            ends.append(end)
            start = end
    return [*ends, len(mean)]


def calibration_and_residuals(told: np.ndarray) -> dict[str, Curve]:
    """The curves of such sums: means of what was predicted and seen, and how far these differ."""
    rows, *sums = told[told[:, 0] > 0].T
    predicted, observed, squared = (total / rows for total in sums)
    residuals = {"mean_residual": observed - predicted, "rms_residual": np.sqrt(squared)}
    table = lambda **curves: {name: values.tolist() for name, values in curves.items()}
    return {
        "calibration": table(predicted=predicted, observed=observed, rows=rows),
        "residuals": table(predicted=predicted, **residuals, rows=rows),
    }
