"""How good predictions are: sums over rows, which add up over sites, and the scores they give.

A scorecard maps rows to a dictionary of arrays (`sums`); the arrays of several sites are added, and
`scores` and `curves` are functions of the total alone. Rows may count with weights, as those of a
bootstrap do.

Ranks need more than sums: classes are counted in cells (`cells.py`).
"""

import abc
from typing import Any, ClassVar, NamedTuple

import numpy as np

from proxfl.losses.scores.cells import (
    COUNTED,
    STEP,
    auc,
    binned,
    calibration,
    calibration_curve,
    needed_of_cells,
    precision_recall,
    roc,
)
from proxfl.losses.scores.grouped import Curve, Sums, calibration_and_residuals, ratio, tenths

MEANS = ("log_loss", "brier")  # of classes


class Rows(NamedTuple):
    """What is known of rows: their scores, labels as encoded, predicted means, and weights."""

    z: np.ndarray
    y: Any  # an array, or what a target makes of several
    mean: np.ndarray
    weight: np.ndarray


class Scorecard(abc.ABC):
    """`threshold` is the probability from which on a row is called positive."""

    only_of_curves: ClassVar[frozenset[str]] = frozenset()  # the sums that no score takes
    step: ClassVar[float] = 0.0  # to so much of a row the losses of a draw are told

    @abc.abstractmethod
    def sums(self, rows: Rows, threshold: float) -> dict[str, Any]: ...

    def drawn(self, rows: Rows, weights: np.ndarray, threshold: float) -> dict[str, np.ndarray]:
        """What scores take of the sums, of the same rows with other weights [draws, rows]."""
        each = [self.sums(rows._replace(weight=weight), threshold) for weight in weights]
        names = [name for name in each[0] if name not in self.only_of_curves]
        told = {name: np.array([one[name] for one in each]) for name in names}
        return told | {n: self.rounded(told[n], rows.weight) for n in MEANS if n in told}

    def rounded(self, totals: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Totals of draws of rows of these weights, as they are told."""
        step = self.step * weight.mean()
        return np.rint(totals / step) * step if step else totals

    @abc.abstractmethod
    def scores(self, sums: Sums) -> dict[str, float]:
        """NaN where the rows do not tell, such as ranks of a single class."""

    def needed(self, sums: Sums) -> dict[str, Any]:
        """Which of the numbers the scores of any draw of these rows take; all of names left out."""
        return {}

    def rank_sums(self, rows: Rows) -> dict[str, Any]:
        """As much of `sums` as `ranks` takes."""
        return {}

    def ranks(self, sums: Sums) -> dict[str, float]:
        """Those scores by which a path of models is judged, beside means over rows."""
        return {}

    def curves(self, sums: Sums) -> dict[str, Curve]:
        """Tables of more than one number, by name."""
        return {}


class OfNumbers(Scorecard):
    """R2 and errors of the predicted mean; a matrix of targets counts entry by entry."""

    only_of_curves = frozenset({"tenths"})

    def sums(self, rows, threshold):
        y, m, w = entries(rows)
        return {"moments": w @ moments(y, m), "tenths": tenths(y, m, w)}

    def drawn(self, rows, weights, threshold):
        y, m, _ = entries(rows)
        each = y.size // len(rows.weight)
        return {"moments": np.repeat(weights, each, axis=1) @ moments(y, m)}

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

    def curves(self, sums):
        return calibration_and_residuals(sums["tenths"])


def entries(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What was seen and predicted, and how much it counts, of each number on its own."""
    w = np.repeat(rows.weight, rows.y.size // len(rows.weight))
    return np.ravel(rows.y), np.ravel(rows.mean), w


def moments(y: np.ndarray, m: np.ndarray) -> np.ndarray:
    each = (np.ones_like(y), y, m, y * y, y * m, m * m, np.abs(y - m), (y - m) ** 2)
    return np.stack(each, axis=1)


class OfTwoClasses(Scorecard):
    """Labels are -1 and +1, `mean` has the probability of each in a column."""

    step = STEP

    def sums(self, rows, threshold):
        p, w, positive = rows.mean[:, 1], rows.weight, rows.y > 0
        called = p >= threshold
        confusion = [w @ (positive & called), w @ (positive & ~called)]
        confusion += [w @ (~positive & called), w @ (~positive & ~called)]
        logs = w @ np.logaddexp(0.0, -rows.y * rows.z)
        means = dict(zip(MEANS, (logs, w @ (p - positive) ** 2), strict=True))
        return means | {"confusion": np.array(confusion)} | binned(rows.z, positive, w)

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

    def rank_sums(self, rows):
        return self.sums(rows, 0.5)

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

    step = STEP

    def sums(self, rows, threshold):
        p, w, classes = rows.mean, rows.weight, np.arange(rows.mean.shape[1])
        is_class = rows.y[:, None] == classes
        guess = p.argmax(axis=1)
        confusion = np.zeros((len(classes), len(classes)))
        np.add.at(confusion, (rows.y, guess), w)
        with np.errstate(divide="ignore"):
            odds = np.log(p) - np.log1p(-p)
        each = [binned(odds[:, k], is_class[:, k], w) for k in classes]
        stacked = {name: np.stack([found[name] for found in each]) for name in each[0]}
        own = np.take_along_axis(rows.z, rows.y[:, None], axis=1)[:, 0]
        logs = np.logaddexp.reduce(rows.z, axis=1) - own
        squares = w @ ((p - is_class) ** 2).sum(axis=1)
        means = dict(zip(MEANS, (w @ logs, squares), strict=True))
        return means | {"confusion": confusion} | stacked

    def needed(self, sums):
        return needed_of_cells(sums)

    def areas(self, sums: Sums) -> np.ndarray:
        """The mean area and resolution, over the classes of which there are rows."""
        found = [auc({name: sums[name][k] for name in COUNTED}) for k in classes_of(sums)]
        known = [area for area in found if not np.isnan(area[0])]
        return np.mean(known, axis=0) if known else np.full(2, np.nan)

    def rank_sums(self, rows):
        return self.sums(rows, 0.5)

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


NUMBERS, TWO_CLASSES, CLASSES = OfNumbers(), OfTwoClasses(), OfClasses()
