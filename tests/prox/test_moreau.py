"""Moreau's identity x = prox_{s g}(x) + s prox_{g* / s}(x / s), the conjugate written anew here.

For a norm g* is the indicator of the dual ball, so its prox is a projection; for a set it is the
support function. These are written in NumPy, by other means than the library's.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, root_scalar

from proxfl.prox import (
    L1,
    Box,
    GroupL2,
    L1Ball,
    L2Ball,
    L2Norm,
    LInf,
    LInfBall,
    NonNegative,
    Nuclear,
    Relu,
    Simplex,
    TotalVariation,
)
from tests.cases_prox import EPS, Case

LABELS = np.array([0, 0, 1, 1, 1, 2, 2, 2])


def root(f, a, b):
    return float(root_scalar(f, bracket=(a, b), method="brentq", xtol=1e-15, rtol=4 * EPS).root)


def shrink_to_ball(v, radius):
    return v * min(1.0, radius / max(np.linalg.norm(v), EPS))


def onto_groups(v, radius):
    radii = [radius * np.sqrt(np.sum(LABELS == k)) for k in range(3)]
    return np.concatenate([shrink_to_ball(v[LABELS == k], r) for k, r in enumerate(radii)])


def onto_l1_ball(v, radius):
    excess = lambda q: np.sum(np.maximum(np.abs(v) - q, 0.0)) - radius
    if excess(0.0) <= 0:
        return v
    q = root(excess, 0.0, np.max(np.abs(v)))
    return np.sign(v) * np.maximum(np.abs(v) - q, 0.0)


def onto_spectral_ball(v, radius):
    squares, basis = np.linalg.eigh(v.T @ v)
    s = np.sqrt(np.maximum(squares, EPS))
    return v @ (basis * np.minimum(1.0, radius / s)) @ basis.T


def onto_sums(v, radius):
    """The nearest D'z with |z| <= radius, D the differences, by an active-set method."""
    d = np.diff(np.eye(v.size), axis=0)
    return d.T @ lsq_linear(d.T, v, (-radius, radius), method="bvls", tol=1e-15).x


def prox_of_box_support(v, step, lo, hi):
    return np.where(v > step * hi, v - step * hi, np.where(v < step * lo, v - step * lo, 0.0))


def prox_of_l1(v, step):
    return np.sign(v) * np.maximum(np.abs(v) - step, 0.0)


def prox_of_largest(v, step):
    """max_i v_i, whose prox cuts the top off until the cuts sum to the step."""
    cut = lambda top: np.sum(np.maximum(v - top, 0.0)) - step
    return np.minimum(v, root(cut, np.max(v) - 2 * step, np.max(v)))


# g, the shape of its points, and (v, step) -> prox of g* with that step.
pairs = [
    (L1(0.7), 8, lambda v, t: np.clip(v, -0.7, 0.7)),
    (L2Norm(0.7), 8, lambda v, t: shrink_to_ball(v, 0.7)),
    (LInf(0.7), 8, lambda v, t: onto_l1_ball(v, 0.7)),
    (Relu(0.7), 8, lambda v, t: np.clip(v, 0.0, 0.7)),
    (GroupL2.of(LABELS, 0.7), 8, lambda v, t: onto_groups(v, 0.7)),
    (Nuclear(0.7), (4, 3), lambda v, t: onto_spectral_ball(v, 0.7)),
    (TotalVariation(0.7), 8, lambda v, t: onto_sums(v, 0.7)),
    (Box(-0.5, 1.25), 8, lambda v, t: prox_of_box_support(v, t, -0.5, 1.25)),
    (NonNegative(), 8, lambda v, t: np.minimum(v, 0.0)),
    (LInfBall(0.7), 8, lambda v, t: prox_of_l1(v, 0.7 * t)),
    (L2Ball(0.7), 8, lambda v, t: v - shrink_to_ball(v, 0.7 * t)),
    (L1Ball(0.7), 8, lambda v, t: v - onto_l1_ball(v, 0.7 * t)),
    (Simplex(0.7), 8, lambda v, t: prox_of_largest(v, 0.7 * t)),
]


@pytest.mark.parametrize(("g", "shape", "conjugate"), pairs, ids=lambda a: type(a).__name__)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_point_is_its_prox_plus_that_of_the_conjugate(g, shape, conjugate, data):
    case = Case("", g, jnp.zeros(shape))
    x, s = data.draw(case.points()), data.draw(case.steps())
    v = x.reshape(case.like.shape) / s
    gap = x - case.prox(x, s) - s * np.ravel(conjugate(v, 1 / s))
    # Root finding, squared singular values and active sets keep some ten digits.
    assert np.max(np.abs(gap)) <= 1e-10 * (1 + np.linalg.norm(x))
