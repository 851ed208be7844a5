"""The distance to the subdifferential, and the bound on it, over every regulariser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.linalg import norm

from proxfl.prox import Box, L1Ball, L2Ball, LInfBall, NonNegative, Nuclear, Simplex
from tests.cases_prox import EPS, regularisers

each = pytest.mark.parametrize("case", regularisers, ids=lambda case: case.name)
examples = settings(max_examples=30, deadline=None, derandomize=True)


def spread(case, p):
    """How far rounding turns singular vectors: as the largest to the least singular value kept."""
    if "Nuclear" not in repr(case.g):
        return 1.0
    kernel = next(leaf for leaf in jax.tree.leaves(case.point(p)) if leaf.ndim == 2)
    s = np.linalg.svd(kernel, compute_uv=False)
    return max(1.0, s[0] / min(s[s > 1e-14 * s[0]], default=1.0))


def least_gap(x):
    return np.min(np.diff(np.unique([0.0, *np.abs(x)])), initial=1.0)


@each
@examples
@given(data=st.data())
def test_what_the_prox_takes_away_is_a_subgradient(case, data):
    """(x - p) / s lies in dg(p), between the shortest there and the longest anywhere."""
    x, s = data.draw(case.points()), data.draw(case.steps())
    p = case.prox(x, s)
    length = norm((x - p) / s)
    rounding = 64 * EPS * (1 + norm(x)) * (1 + 1 / s) * spread(case, p)
    assert case.distance(p, (p - x) / s) <= rounding
    assert case.distance(p, 0 * p) - rounding <= length <= case.bound + rounding


@each
@examples
@given(data=st.data())
def test_distance_is_the_length_of_a_short_proximal_step(case, data):
    """|x - prox(x - s grad, s)| / s grows to the distance as s falls to 0, if g is convex.

    Off the subdifferential it is positive, so the distance is too. Points are on a coarse grid,
    or one prox away from it, so that the step is short beside every gap between their entries.
    """
    s, x = 2.0**-25, data.draw(arrays(int, case.size, elements=st.integers(-12, 12))) / 4
    x = case.prox(x, 1.0) if not case.finite or data.draw(st.booleans()) else x
    assume(least_gap(x) > 1e-4)
    grad = data.draw(case.points())
    found, sizes = case.distance(x, grad), 1 + norm(grad) + norm(x)
    step = lambda s: norm(x - case.prox(x - s * grad, s)) / s
    # The step's own length, times a curvature of up to 100, and rounding errors divided by s.
    assert abs(found - step(s)) <= (100 * s + 64 * EPS / s) * sizes * spread(case, x)
    if np.isinf(case.step_limit):
        assert step(0.5) <= found + 64 * EPS * sizes * spread(case, x)


ones, zigzag = np.ones(8), (-1.0) ** np.arange(8)
tight = {
    "l1": ones,
    "l1_weighted": ones,
    "l2": ones,
    "linf": np.arange(8.0),
    "relu": ones,
    "groups": ones,
    "nuclear": np.ravel(np.eye(4, 3)),
    "variation": zigzag,
    "variation_weighted": zigzag,
    "mcp": 1e-17 * ones,
}


@pytest.mark.parametrize("name", tight)
def test_the_bound_is_attained(name):
    case = next(case for case in regularisers if case.name == name)
    x = tight[name]
    assert case.distance(x, 0 * x) == pytest.approx(case.bound, rel=64 * EPS)


outside = [
    (Box(-1.0, 1.0), jnp.array([0.0, 1.1])),
    (NonNegative(), jnp.array([1.0, -1e-9])),
    (Simplex(), jnp.array([0.5, 0.6])),
    (Simplex(), jnp.array([1.5, -0.5])),
    (L1Ball(1.0), jnp.array([0.6, -0.6])),
    (L2Ball(1.0), jnp.array([0.8, 0.7])),
    (LInfBall(1.0), jnp.array([0.0, -1.1])),
]


@pytest.mark.parametrize(("g", "x"), outside, ids=str)
def test_off_a_set_value_and_distance_are_infinite(g, x):
    assert jnp.isinf(g.value(x)) and jnp.isinf(g.distance(x, x)) and jnp.isinf(g.bound(x))


def test_distance_to_the_nuclear_subdifferential_is_found_by_brute_force():
    """Along a 2 x 2 diagonal of rank one dg is {diag(1, w): |w| <= 1}; search over w."""
    x, grad = jnp.diag(jnp.array([2.0, 0.0])), jnp.array([[0.3, -0.2], [0.5, 1.7]])
    lengths = [float(norm(grad + jnp.diag(jnp.array([1.0, w])))) for w in np.linspace(-1, 1, 201)]
    assert float(Nuclear(1.0).distance(x, grad)) == pytest.approx(min(lengths), rel=64 * EPS)
