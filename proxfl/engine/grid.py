"""Models on a grid: machines that round differently still ask and answer about the same one.

A point is rounded to multiples of 2^-40 of its scale, the power of two above its largest
coordinate. Who follows a run finds its next point within a few roundings of the server's, which is
the same place on the grid, or, near the middle between two places, a neighbour. Nothing else is
answered: were any point close by allowed, the server could learn from small moves of its choosing.
"""

import numpy as np

BITS = 40
NEAR_MIDDLE = 2.0**-6  # of a step: what machines may differ by, some hundred roundings


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


def agrees(asked: np.ndarray, own: np.ndarray) -> bool:
    """Whether a point is the nearest place to one's own or, if that is near a middle, the next."""
    if asked.shape != own.shape or asked.dtype != own.dtype:
        return False
    step = step_of(own)
    places = own / step
    below = np.floor(places)
    nearest, above_middle = np.round(places), places - below - 0.5
    other = np.where(nearest > below, below, below + 1)
    near = np.abs(above_middle) <= NEAR_MIDDLE
    return bool(np.all((asked == step * nearest) | (near & (asked == step * other))))
