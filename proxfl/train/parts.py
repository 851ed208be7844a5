"""What a model is made of, as a penalty sees it: features, or directions of a low-rank one."""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np


class Parts(abc.ABC):
    """The parts that a path lets in one by one; `path` is a `RegularisationPath`."""

    size: str  # what the size of a model counts
    by_feature: bool  # whether a coefficient belongs to a part, that of its feature

    @abc.abstractmethod
    def names(self, features: Sequence[str], outputs: int) -> tuple[str, ...]: ...

    @abc.abstractmethod
    def present(self, coef: np.ndarray) -> np.ndarray:
        """Which parts a model with these coefficients has."""

    def said(self, coef: np.ndarray) -> str | None:
        """A sentence on such a model, if there is more to say than what its coefficients are."""
        return None

    @abc.abstractmethod
    def sizes(self, path: Any) -> np.ndarray:
        """The size of each model of a path."""

    @abc.abstractmethod
    def curves(self, path: Any) -> tuple[np.ndarray, list[str], str]:
        """One column for each part along a path, their names, and what the numbers are."""


class Features(Parts):
    size = "coefficients that are not zero"
    by_feature = True

    def names(self, features, outputs):
        return tuple(features)

    def present(self, coef):
        return np.asarray(coef.reshape(len(coef), -1).any(axis=1))

    def sizes(self, path):
        return path.nonzeros

    def curves(self, path):
        values, what = path.coef, "coefficient"
        if values.ndim == 3:
            values, what = np.linalg.norm(values, axis=2), "norm over classes"
        scale = np.array(path.agreement.scale)
        if (scale != 1).any():
            centred = any(path.agreement.centre) or path.spec.standardise
            unit = "standard deviation" if centred else "root mean square"
            values, what = values * scale, f"{what}, per {unit}"
        return values, list(path.agreement.features), what


class Directions(Parts):
    size = "directions"
    by_feature = False

    def names(self, features, outputs):
        return tuple(f"direction {k + 1}" for k in range(min(len(features), outputs)))

    def present(self, coef):
        return not_rounding(np.linalg.svd(coef, compute_uv=False))

    def said(self, coef):
        return (
            f"The matrix of coefficients has rank {self.present(coef).sum()} of {min(coef.shape)}."
        )

    def sizes(self, path):
        return not_rounding(self.singular_values(path)).sum(axis=1)

    def curves(self, path):
        values = self.singular_values(path)
        values = np.where(values > 1e-10 * values.max(), values, 0.0)
        agreement = path.agreement
        names = self.names(agreement.features, len(agreement.targets))
        return values, list(names), "singular value"

    def singular_values(self, path: Any) -> np.ndarray:
        """Of the coefficients that the penalty sees: of standardised features, if so asked."""
        scale = np.array(path.agreement.scale) if path.spec.standardise else np.ones(1)
        return np.linalg.svd(path.coef * scale[:, None], compute_uv=False)


def not_rounding(values: np.ndarray) -> np.ndarray:
    """Which singular values are more than rounding, of each model by itself."""
    return values > 1e-10 * np.maximum(values[..., :1], np.finfo(float).tiny)


FEATURES, DIRECTIONS = Features(), Directions()
