"""A fitted linear model in the units of the data, and what it predicts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from proxfl import losses
from proxfl.losses.targets import Label
from proxfl.points import Point, Tree
from proxfl.train.agreement import Agreement
from proxfl.train.penalties.by_feature import repeated


@dataclass(frozen=True)
class Model:
    """Scores are A @ coef + intercept; zeros in `coef` are exact."""

    loss: str
    features: tuple[str, ...]
    classes: tuple[Label, ...]
    coef: np.ndarray  # [features] or [features, classes]
    intercept: np.ndarray  # a number, or one per class

    @classmethod
    def of(cls, loss: str, agreement: Agreement, x: Point) -> "Model":
        """Undo the scaling: the model for features as they are in the files."""
        coef = np.asarray(losses.coef_of(x))
        coef = coef / repeated(np.asarray(agreement.scale), len(agreement.targets))
        intercept = np.zeros(coef.shape[1:])
        if isinstance(x, Tree):
            shift = np.asarray(agreement.centre) @ coef
            intercept = np.asarray(np.asarray(x.params.intercept) - shift)
        return cls(loss, agreement.features, agreement.classes, coef, intercept)

    def scores(self, A: np.ndarray) -> np.ndarray:
        return A @ self.coef + self.intercept

    def predict(self, A: np.ndarray) -> np.ndarray:
        """A class for a classifier, the mean for a regression."""
        kind = losses.named(self.loss)
        return kind.target.predicted(self.scores(A), kind.mean, self.classes)

    def probabilities(self, A: np.ndarray) -> np.ndarray | None:
        """One column per class, for a classifier."""
        return losses.named(self.loss).mean(self.scores(A)) if self.classes else None

    def nonzeros(self) -> list[dict[str, Any]]:
        """Every coefficient that is not exactly zero, the largest first."""
        found = []
        for where in zip(*np.nonzero(self.coef), strict=True):
            entry: dict[str, Any] = {"feature": self.features[where[0]]}
            if self.coef.ndim == 2:
                entry["class"] = self.classes[where[1]]
            found.append(entry | {"value": float(self.coef[where])})
        return sorted(found, key=lambda entry: -abs(entry["value"]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "features": list(self.features),
            "classes": list(self.classes),
            "coef": self.coef.tolist(),
            "intercept": self.intercept.tolist(),
            "nonzeros": self.nonzeros(),
        }

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> "Model":
        return cls(
            held["loss"],
            tuple(held["features"]),
            tuple(held["classes"]),
            np.array(held["coef"], float),
            np.array(held["intercept"], float),
        )
