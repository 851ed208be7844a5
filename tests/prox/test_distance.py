"""The distance to the subdifferential, and the bound on it, over every regulariser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from proxfl.points import norm
from proxfl.prox import Box, L1Ball, L2Ball, LInfBall, NonNegative, Nuclear, Simplex
from tests.cases_prox import EPS, distance, prox, regularisers

each = pytest.mark.parametrize("case", regularisers, ids=lambda case: case.name)
examples = settings(max_examples=30, deadline=None, derandomize=True)
quarters = st.integers(-12, 12).map(lambda i: i / 4)


def spread(g, p):
    """How far rounding turns singular vectors: as the largest to the least singular value kept."""
    if "Nuclear" not in repr(g):
        return 1.0
    kernel = next(leaf for leaf in jax.tree.leaves(p) if leaf.ndim == 2)
    s = np.linalg.svd(kernel, compute_uv=False)
    return float(s[0] / min(s[s > 1e-14 * s[0]], default=1.0))


@each
@examples
@given(data=st.data())
def test_what_the_prox_takes_away_is_a_subgradient(case, data):
    """(x - p) / s lies in dg(p): its distance is 0, and it is no longer than the bound."""
    g, x, s = case.g, data.draw(case.points()), data.draw(case.steps())
    p = prox(g, x, s)
    rounding = 64 * EPS * (1 + norm(x)) * (1 + 1 / s) * spread(g, p)
    assert distance(g, p, (p - x) / s) <= rounding
    assert norm((x - p) / s) <= g.bound(p) + rounding


@each
@examples
@given(data=st.data())
def test_distance_is_the_length_of_a_short_proximal_step(case, data):
    """|x - prox(x - s grad, s)| / s grows to the distance as s falls to 0.

    Off the subdifferential it is positive, so the distance is too. Points are on a coarse grid,
    or one prox of an odd step away, for s to be short beside every gap between their entries.
    """
    g, s = case.g, 2.0**-25
    x = case.point(data.draw(arrays(np.float64, case.size, elements=quarters)))
    x = prox(g, x, 0.9731) if not case.finite or data.draw(st.booleans()) else x
    grad = data.draw(case.points())
    step = norm(x - prox(g, x - s * grad, s)) / s
    # The step's own length, times a curvature of up to 100, and rounding errors divided by s.
    tolerance = (100 * s + 64 * EPS / s) * (1 + norm(grad) + norm(x))
    assert abs(distance(g, x, grad) - step) <= tolerance


@each
@examples
@given(data=st.data())
def test_any_proximal_step_is_shorter_than_the_distance(case, data):
    if not case.convex:
        pytest.skip("the inequality needs convexity")
    g, s, grad = case.g, data.draw(case.steps()), data.draw(case.points())
    x = prox(g, data.draw(case.points()), 1.0)
    step = norm(x - prox(g, x - s * grad, s)) / s
    rounding = 64 * EPS * (1 + norm(x) + norm(grad)) * (1 + 1 / s) * spread(g, x)
    assert step <= distance(g, x, grad) + rounding


@each
@examples
@given(data=st.data())
def test_the_shortest_subgradient_is_within_the_bound(case, data):
    x = prox(case.g, data.draw(case.points()), 1.0)
    assert distance(case.g, x, 0.0 * x) <= case.g.bound(x) * (1 + 64 * EPS)


tight = [
    ("l1", jnp.full(8, 1.0)),
    ("l1_weighted", jnp.full(8, 1.0)),
    ("l2", jnp.full(8, 1.0)),
    ("linf", jnp.arange(8.0)),
    ("relu", jnp.full(8, 1.0)),
    ("groups", jnp.full(8, 1.0)),
    ("nuclear", jnp.eye(4, 3)),
    ("variation", (-1.0) ** jnp.arange(8.0)),
    ("variation_weighted", (-1.0) ** jnp.arange(8.0)),
    ("mcp", jnp.full(8, 1e-17)),
]


@pytest.mark.parametrize(("name", "x"), tight, ids=lambda a: a if isinstance(a, str) else "")
def test_the_bound_is_attained(name, x):
    g = next(case.g for case in regularisers if case.name == name)
    assert float(g.distance(x, 0.0 * x)) == pytest.approx(float(g.bound(x)), rel=64 * EPS)


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
