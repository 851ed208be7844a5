"""How good predictions are: sums over rows, which add up over sites, and the scores they give.

A scorecard maps rows to a dictionary of arrays (`sums`); the arrays of several sites are added, and
`scores` and `curves` are functions of the total alone. Rows may count with weights, as those of a
bootstrap do.

Ranks need more than sums: classes are counted in cells of equal width in the log odds of the
prediction (`CELLS`). A pair of rows in one cell counts as a tie, so the area under the ROC curve is
known up to half the share of such pairs, which is told beside it; calibration takes each cell by
the mean of what is predicted in it.
"""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

Sums = Mapping[str, Any]  # numbers and arrays
Curve = dict[str, list[Any]]  # a table by column

WIDTH = 0.002  # of a cell, in log odds
END = 20.0  # beyond which all is one cell: there, probabilities are within 2e-9 of 0 or 1
CELLS = int(2 * END / WIDTH) + 2
GROUPS, FEWEST = 10, 20  # of a calibration curve at most, and rows of each at least


class Rows(NamedTuple):
    """What is known of rows: their scores, labels as encoded, predicted means, and weights."""

    z: np.ndarray
    y: Any  # an array, or what a target makes of several
    mean: np.ndarray
    weight: np.ndarray


class Scorecard(abc.ABC):
    """`threshold` is the probability from which on a row is called positive."""

    @abc.abstractmethod
    def sums(self, rows: Rows, threshold: float) -> dict[str, Any]: ...

    @abc.abstractmethod
    def scores(self, sums: Sums) -> dict[str, float]:
        """NaN where the rows do not tell, such as ranks of a single class."""

    def needed(self, sums: Sums) -> dict[str, Any]:
        """Which of the numbers the scores of any draw of these rows take; all of names left out."""
        return {}

    def rank_sums(self, rows: Rows) -> dict[str, Any]:
        """As much of `sums` as `ranks` takes."""
        return self.sums(rows, 0.5)

    def ranks(self, sums: Sums) -> dict[str, float]:
        """Those scores by which a path of models is judged, beside means over rows."""
        return {}

    def curves(self, sums: Sums) -> dict[str, Curve]:
        """Tables of more than one number, by name."""
        return {}


class OfNumbers(Scorecard):
    """R2 and errors of the predicted mean; a matrix of targets counts entry by entry."""

    def sums(self, rows, threshold):
        w = rows.weight.reshape(-1, *[1] * (rows.y.ndim - 1))
        y, m, total = rows.y, rows.mean, lambda values: np.sum(w * values)
        moments = (np.ones_like(y), y, m, y * y, y * m, m * m, np.abs(y - m), (y - m) ** 2)
        return {"moments": np.array([total(values) for values in moments])}

    def scores(self, sums):
        n, y, m, yy, ym, mm, absolute, squared = sums["moments"]
        around, between, spread = yy - y * y / n, ym - y * m / n, mm - m * m / n
        slope = ratio(between, spread)
        return {
            "r2": 1 - ratio(squared, around),
            "rmse": float(np.sqrt(squared / n)),
            "mae": float(absolute / n),
            "calibration_slope": slope,
            "calibration_intercept": float((y - slope * m) / n),
        }


class OfTwoClasses(Scorecard):
    """Labels are -1 and +1, `mean` has the probability of each in a column."""

    def sums(self, rows, threshold):
        p, w, positive = rows.mean[:, 1], rows.weight, rows.y > 0
        called = p >= threshold
        confusion = [w @ (positive & called), w @ (positive & ~called)]
        confusion += [w @ (~positive & called), w @ (~positive & ~called)]
        logs = w @ np.logaddexp(0.0, -rows.y * rows.z)
        means = {"log_loss": logs, "brier": w @ (p - positive) ** 2}
        return means | {"confusion": np.array(confusion)} | binned(rows.z, p, positive, w)

    def scores(self, sums):
        tp, fn, fp, tn = sums["confusion"]
        rows = sums["confusion"].sum()
        area, unsure = auc(sums)
        intercept, slope = calibration(sums)
        return {
            "log_loss": float(sums["log_loss"] / rows),
            "auc": area,
            "auc_resolution": unsure,
            "brier": float(sums["brier"] / rows),
            "accuracy": float((tp + tn) / rows),
            "sensitivity": ratio(tp, tp + fn),
            "specificity": ratio(tn, tn + fp),
            "precision": ratio(tp, tp + fp),
            "calibration_slope": slope,
            "calibration_intercept": intercept,
        }

    def needed(self, sums):
        return needed_of_cells(sums)

    def ranks(self, sums):
        return {"auc": auc(sums)[0]}

    def curves(self, sums):
        tp, fn, fp, tn = sums["confusion"].tolist()
        table = {"predicted": ["positive", "negative"]}
        return {
            "roc": roc(sums),
            "precision_recall": precision_recall(sums),
            "calibration": calibration_curve(sums),
            "confusion": table | {"positive": [tp, fn], "negative": [fp, tn]},
        }


class OfClasses(Scorecard):
    """Labels are 0, 1, ...; the area is the mean over classes of each against all others."""

    def sums(self, rows, threshold):
        p, w, classes = rows.mean, rows.weight, np.arange(rows.mean.shape[1])
        is_class = rows.y[:, None] == classes
        guess = p.argmax(axis=1)
        confusion = np.zeros((len(classes), len(classes)))
        np.add.at(confusion, (rows.y, guess), w)
        with np.errstate(divide="ignore"):
            odds = np.log(p) - np.log1p(-p)
        each = [binned(odds[:, k], p[:, k], is_class[:, k], w) for k in classes]
        stacked = {name: np.stack([found[name] for found in each]) for name in each[0]}
        logs = logsumexp(rows.z, axis=1) - np.take_along_axis(rows.z, rows.y[:, None], 1)[:, 0]
        means = {"log_loss": w @ logs, "brier": w @ ((p - is_class) ** 2).sum(axis=1)}
        return means | {"confusion": confusion} | stacked

    def needed(self, sums):
        return needed_of_cells(sums)

    def areas(self, sums: Sums) -> np.ndarray:
        """The mean area and resolution, over the classes of which there are rows."""
        found = [auc({name: sums[name][k] for name in BINNED}) for k in classes_of(sums)]
        known = [area for area in found if not np.isnan(area[0])]
        return np.mean(known, axis=0) if known else np.full(2, np.nan)

    def ranks(self, sums):
        return {"auc": float(self.areas(sums)[0])}

    def scores(self, sums):
        rows, mean = sums["confusion"].sum(), self.areas(sums)
        return {
            "log_loss": float(sums["log_loss"] / rows),
            "auc": float(mean[0]),
            "auc_resolution": float(mean[1]),
            "brier": float(sums["brier"] / rows),
            "accuracy": float(np.trace(sums["confusion"]) / rows),
        }

    def curves(self, sums):
        names = [f"class {k}" for k in classes_of(sums)]
        columns = {name: sums["confusion"][:, k].tolist() for k, name in enumerate(names)}
        return {"confusion": {"true": names, **columns}}


def classes_of(sums: Sums) -> range:
    return range(len(sums["confusion"]))


BINNED = ("positives", "negatives", "odds", "predicted")


def binned(z: np.ndarray, p: np.ndarray, positive: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """By cell of the log odds z: rows of either class, and sums of z and of probabilities."""
    cell = cell_of(z)
    add = lambda values: np.bincount(cell, values, CELLS)
    held = np.clip(z, -END, END)
    parts = (w * positive, w * ~positive, w * held, w * p)
    return {name: add(values) for name, values in zip(BINNED, parts, strict=True)}


def needed_of_cells(sums: Sums) -> dict[str, Any]:
    """Of cells without rows none, and none of what only curves are of."""
    some = sums["positives"] + sums["negatives"] > 0
    return dict.fromkeys(BINNED, some) | {"predicted": np.zeros_like(some)}


def cell_of(z: np.ndarray) -> np.ndarray:
    return (np.clip((z + END) / WIDTH, -1, 2 * END / WIDTH) + 1).astype(int)


def ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole > 0 else float("nan")


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
    return tuple(np.cumsum(sums[name][::-1])[held] for name in ("positives", "negatives"))  # type: ignore[return-value]


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
    return in_groups(rows, sums["predicted"], sums["positives"])


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


def calibration(sums: Sums) -> tuple[float, float]:
    """The intercept at slope 1, and the slope with an intercept of its own, of y on log odds.

    Both are 0 and 1 if probabilities are right; they are those of a logistic regression in which
    each cell stands for its rows.
    """
    positives, rows = sums["positives"], sums["positives"] + sums["negatives"]
    held = rows > 0
    z, n, k = (sums["odds"][held] / rows[held]), rows[held], positives[held]
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


NUMBERS, TWO_CLASSES, CLASSES = OfNumbers(), OfTwoClasses(), OfClasses()
