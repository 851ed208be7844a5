"""Scaling of features: an explicit choice, since step sizes mean nothing without it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proxfl.data.federated import Site, curvatures, demand
from proxfl.losses import Logistic


@dataclass(frozen=True)
class Scaling:
    """Rows as drawn (`raw`) or of length one (`unit`), then one common factor, given or found.

    `smoothness` asks for the factor that makes curvature * lambda_max of the mean over clients of
    A_i' A_i / m_i equal to it, with the curvature 1/4 of the logistic loss.
    """

    rows: str = "raw"
    factor: float | None = None
    smoothness: float | None = None


RAW = Scaling()


def rescale(sites: Sequence[Site], scaling: Scaling) -> tuple[list[Site], float]:
    """The scaled sites and the common factor that was used."""
    demand(
        scaling.rows in ("raw", "unit"),
        f"scaling.rows must be 'raw' or 'unit', got {scaling.rows!r}; choose one.",
    )
    demand(
        scaling.factor is None or scaling.smoothness is None,
        f"scaling has factor={scaling.factor} and smoothness={scaling.smoothness}; give only one.",
    )
    for name, value in (("factor", scaling.factor), ("smoothness", scaling.smoothness)):
        demand(
            value is None or 0 < value < math.inf,
            f"scaling.{name} must be positive and finite, got {value}; leave it out or raise it.",
        )
    based = sites if scaling.rows == "raw" else [(unit_rows(A), y) for A, y in sites]
    factor = 1.0 if scaling.factor is None else float(scaling.factor)
    if scaling.smoothness is not None:
        bound = Logistic.curvature * curvatures(based)["lambda_max"]
        factor = math.sqrt(scaling.smoothness / bound)
    return [(factor * A, y) for A, y in based], factor


def unit_rows(A: np.ndarray) -> np.ndarray:
    """Every row divided by its length; a row of zeros stays as it is."""
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return A / np.where(lengths > 0, lengths, 1.0)
