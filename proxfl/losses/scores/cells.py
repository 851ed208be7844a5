"""Ranks of predictions from counts: rows of either class in cells of equal width in the log odds.

A pair of rows in one cell counts as a tie, so the area under the ROC curve is known up to half the
share of such pairs, which is told beside it; calibration takes each cell by its middle. A row is
often alone in a cell, and sums of what is predicted there would be its score with all digits: by a
model whose scores write out the columns of a row, digit by digit, that would be the row.
"""

from typing import Any

import numpy as np

from proxfl.losses.scores.grouped import Curve, Sums, in_groups, ratio

WIDTH = 0.002  # of a cell, in log odds
END = 20.0  # beyond which all is one cell: there, probabilities are within 2e-9 of 0 or 1
CELLS = int(2 * END / WIDTH) + 2

# To so much of a row the losses of a draw are told. By its cell it is known how often a row is in a
# draw, so that many draws tell the loss of each row, to a tenth or so of this for some hundred.
STEP = 0.05
MIDDLES = np.clip(WIDTH * (np.arange(CELLS) - 0.5) - END, -END, END)

COUNTED = ("positives", "negatives")


def binned(z: np.ndarray, positive: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """By cell of the log odds z, rows of either class."""
    cell = cell_of(z)
    parts = (w * positive, w * ~positive)
    return {n: np.bincount(cell, part, CELLS) for n, part in zip(COUNTED, parts, strict=True)}


def needed_of_cells(sums: Sums) -> dict[str, Any]:
    """Of cells without rows none."""
    return dict.fromkeys(COUNTED, sums["positives"] + sums["negatives"] > 0)


def cell_of(z: np.ndarray) -> np.ndarray:
    return (np.clip((z + END) / WIDTH, -1, 2 * END / WIDTH) + 1).astype(int)


def auc(sums: Sums) -> tuple[float, float]:
    """The share of pairs of unlike rows that are ranked right, ties half, and how sure that is."""
    positives, negatives = sums["positives"], sums["negatives"]
    below = np.cumsum(negatives) - negatives
    pairs = positives.sum() * negatives.sum()
    tied = positives @ negatives / 2
    return ratio(positives @ below + tied, pairs), ratio(tied, pairs)


def falling(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """The positives and negatives at or above each cell that holds any, the highest first."""
    held = (sums["positives"] + sums["negatives"] > 0)[::-1]
    return tuple(np.cumsum(sums[name][::-1])[held] for name in COUNTED)  # type: ignore[return-value]


def roc(sums: Sums) -> Curve:
    tp, fp = falling(sums)
    if not tp.size or not tp[-1] or not fp[-1]:
        return {"false_positive_rate": [], "true_positive_rate": []}
    from_zero = lambda counts: [0.0, *(counts / counts[-1]).tolist()]
    return {"false_positive_rate": from_zero(fp), "true_positive_rate": from_zero(tp)}


def precision_recall(sums: Sums) -> Curve:
    tp, fp = falling(sums)
    if not tp.size or not tp[-1]:
        return {"recall": [], "precision": []}
    return {"recall": (tp / tp[-1]).tolist(), "precision": (tp / (tp + fp)).tolist()}


def calibration_curve(sums: Sums) -> Curve:
    rows = sums["positives"] + sums["negatives"]
    return in_groups(rows, rows / (1 + np.exp(-MIDDLES)), sums["positives"])


def calibration(sums: Sums) -> tuple[float, float]:
    """The intercept at slope 1, and the slope with an intercept of its own, of y on log odds.

    Both are 0 and 1 if probabilities are right; they are those of a logistic regression in which
    each cell stands for its rows.
    """
    positives, rows = sums["positives"], sums["positives"] + sums["negatives"]
    held = rows > 0
    z, n, k = MIDDLES[held], rows[held], positives[held]
    if not 0 < k.sum() < n.sum():
        return float("nan"), float("nan")
    ones = np.ones_like(z)[:, None]
    intercept = regressed(ones, z, n, k)[0]
    slope = regressed(np.stack([ones[:, 0], z], axis=1), 0 * z, n, k)[1]
    return float(intercept), float(slope)


def regressed(X: np.ndarray, offset: np.ndarray, n: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Newton's method for k of n successes; NaN if it does not settle, as with a perfect model."""
    b = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(X @ b + offset, -500, 500)))
        gradient, hessian = X.T @ (k - n * p), (X * (n * p * (1 - p))[:, None]).T @ X
        if not np.linalg.cond(hessian) < 1e12:
            return np.full_like(b, np.nan)
        step = np.linalg.solve(hessian, gradient)
        longest = np.abs(step).max()
        b = b + step / max(1.0, longest / 5)
        if longest < 1e-10 * (1 + np.abs(b).max()):
            return b
    return np.full_like(b, np.nan)
