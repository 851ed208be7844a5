"""A fitted linear model in the units of the data, and what it predicts."""

from collections.abc import Mapping, Sequence
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
    outputs: tuple[Label, ...]  # what each score is for: the target, targets or classes
    coef: np.ndarray  # [features] or [features, outputs]
    intercept: np.ndarray  # a number, or one per output

    @classmethod
    def of(cls, loss: str, agreement: Agreement, x: Point) -> "Model":
        """Undo the scaling: the model for features as they are in the files.

        Where only differences of intercepts count, their mean is 0: it is any number otherwise,
        depending on the way the model was found.
        """
        coef = np.asarray(losses.coef_of(x))
        coef = coef / repeated(np.asarray(agreement.scale), len(agreement.targets))
        intercept = np.zeros(coef.shape[1:])
        if isinstance(x, Tree):
            shift = np.asarray(agreement.centre) @ coef
            intercept = np.asarray(np.asarray(x.params.intercept) - shift)
            if losses.named(loss).only_differences:
                intercept = intercept - intercept.mean()
        about = (agreement.features, agreement.classes, agreement.targets)
        return cls(loss, *about, coef, intercept)

    def scores(self, A: Any, offset: np.ndarray | float = 0.0) -> np.ndarray:
        return A @ self.coef + self.intercept + offset

    def predict(self, A: Any, offset: np.ndarray | float = 0.0) -> np.ndarray:
        """A class for a classifier, the mean for a regression, the log hazard for Cox's model."""
        kind = losses.named(self.loss)
        return kind.target.predicted(self.scores(A, offset), kind.mean, self.classes)

    def probabilities(self, A: Any, offset: np.ndarray | float = 0.0) -> np.ndarray | None:
        """One column per class, for a classifier."""
        return losses.named(self.loss).mean(self.scores(A, offset)) if self.classes else None

    def nonzeros(self, scale: Sequence[float] | None = None) -> list[dict[str, Any]]:
        """Every coefficient that is not exactly zero, the largest first, in units if given."""
        found = []
        for where in zip(*np.nonzero(self.coef), strict=True):
            entry: dict[str, Any] = {"feature": self.features[where[0]]}
            if self.coef.ndim == 2:
                entry[output_key(self.classes)] = self.outputs[where[1]]
            found.append(entry | {"value": float(self.coef[where])})
        units = dict(zip(self.features, scale or np.ones(len(self.features)), strict=True))
        return sorted(found, key=lambda entry: -abs(entry["value"] * units[entry["feature"]]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "features": list(self.features),
            "classes": list(self.classes),
            "outputs": list(self.outputs),
            "coef": self.coef.tolist(),
            "intercept": self.intercept.tolist(),
            "nonzeros": self.nonzeros(),
        }

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> "Model":
        """The inverse of `to_dict`; ValueError if the parts do not fit one another."""
        parts = [tuple(held[key]) for key in ("features", "classes", "outputs")]
        shape = shape_of(held["loss"], *parts)
        numbers = {key: np.array(held[key], object) for key in ("coef", "intercept")}
        if [found.shape for found in numbers.values()] != [shape, shape[1:]]:
            raise ValueError("coef and intercept have not one number for each feature and output.")
        arrays = {key: found.astype(float) for key, found in numbers.items()}
        made = cls(held["loss"], *parts, arrays["coef"], arrays["intercept"])  # type: ignore[arg-type]
        place = lambda entry: (entry["feature"], str(entry.get(output_key(made.classes))))
        if sorted(held["nonzeros"], key=place) != sorted(made.nonzeros(), key=place):
            raise ValueError("nonzeros are not those of coef.")
        return made


def output_key(classes: Sequence[Label]) -> str:
    """What one of several scores is for."""
    return "class" if classes else "target"


def shape_of(
    loss: str, features: Sequence[str], classes: Sequence[Label], outputs: Sequence[Label]
) -> tuple[int, ...]:
    """The shape of the coefficients, if the loss is known and takes such classes and outputs."""
    target, count = losses.named(loss).target, len(classes)
    if not features or len(set(features)) != len(features):
        raise ValueError("features must be distinct names, at least one.")
    if len(set(classes)) != count or count > target.most or (target.most and count < 2):
        raise ValueError(f"classes must be distinct, and as many as {loss} takes.")
    if len(set(outputs)) != len(outputs) or len(outputs) < 1:
        raise ValueError("outputs must be distinct, at least one.")
    if len(outputs) > 1 and not (target.several or tuple(outputs) == tuple(classes)):
        raise ValueError(f"outputs must be those of {loss}.")
    return (len(features),) if len(outputs) == 1 else (len(features), len(outputs))
