"""Models on a grid: one form for the points that are the same but for their last digits.

A point is rounded to multiples of 2^-40 of its scale, the power of two above its largest
coordinate. Machines that round otherwise come to the same place, or to one that is near.
"""

import numpy as np

BITS = 40


def step_of(point: np.ndarray) -> float:
    """The distance of two places, a power of two; 1 for a point that is zero."""
    _, exponent = np.frexp(np.abs(point).max(initial=0.0))
    return float(np.ldexp(1.0, int(exponent) - BITS))


def rounded(point: np.ndarray) -> np.ndarray:
    """The nearest place on the point's own grid."""
    step = step_of(point)
    return np.asarray(step * np.round(point / step) + 0.0)  # -0 has other bytes than 0


def sent(value: np.ndarray) -> np.ndarray:
    """Numbers as they are sent: whole ones as they are."""
    return rounded(value) if value.dtype.kind == "f" else value
