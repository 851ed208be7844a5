"""Laws of the prox, over every regulariser."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import norm

from proxfl.prox import L1, GroupL2, L2Norm, LInf, Nuclear, Relu, Scaled, TotalVariation
from tests.cases_prox import EPS, Case, regularisers

each = pytest.mark.parametrize("case", regularisers, ids=lambda case: case.name)
convex = [case for case in regularisers if np.isinf(case.step_limit)]
examples = settings(max_examples=30, deadline=None, derandomize=True)


def rounding(*points):
    """64 roundings at the size of the points: proxes here do a few dozen operations in a row."""
    return 64 * EPS * (1 + sum(norm(x) for x in points))


@each
@examples
@given(data=st.data())
def test_prox_beats_every_other_point(case, data):
    """By the margin that strong convexity of the prox's objective gives, near and far."""
    x, y, s = (data.draw(a) for a in (case.points(), case.points(), case.steps()))
    p, inside = case.prox(x, s), case.prox(y, s)
    cost = lambda u: case.value(u) + (u - x) @ (u - x) / (2 * s)
    least, modulus = cost(p), 1 / s - 1 / case.step_limit
    assert np.isfinite(least)
    for other in (y, inside, *(p + t * (inside - p) for t in (0.5, 1e-2, 1e-4))):
        margin = modulus / 2 * (other - p) @ (other - p)
        size = 1 + least + (norm(x) + norm(other)) ** 2 / s
        assert least + margin <= cost(other) + 64 * EPS * size


@pytest.mark.parametrize("case", convex, ids=lambda case: case.name)
@examples
@given(data=st.data())
def test_prox_is_firmly_nonexpansive(case, data):
    x, y, s = (data.draw(a) for a in (case.points(), case.points(), case.steps()))
    p, q = case.prox(x, s), case.prox(y, s)
    slack = rounding(x, y) * (norm(x - y) + norm(p - q))
    assert (p - q) @ (p - q) <= (p - q) @ (x - y) + slack


@each
@examples
@given(data=st.data())
def test_a_step_moves_no_further_than_the_shortest_subgradient(case, data):
    """So a step to 0 gives back every point of the domain, and a projection its own image."""
    x, t = data.draw(case.points()), data.draw(st.sampled_from([1.0, 2.0**-10, 2.0**-40]))
    x = x if case.finite else case.prox(x, 1.0)
    s = t * case.longest
    # Weak convexity lets the prox stretch by 1 / (1 - s / step_limit).
    most = s * case.distance(x, 0 * x) / (1 - s / case.step_limit)
    assert norm(case.prox(x, s) - x) <= most + rounding(x)


@pytest.mark.parametrize("case", [case for case in convex if case.finite], ids=lambda c: c.name)
@examples
@given(data=st.data())
def test_a_tiny_step_rounds_each_number_by_its_own_size(case, data):
    """Not by that of the largest: where features differ in units, so do coefficients."""
    x = data.draw(case.points()) * 2.0 ** -(5.0 * np.arange(case.size) % 31)
    assert (np.abs(case.prox(x, 2.0**-80) - x) <= 4 * EPS * np.abs(x) + 2.0**-70).all()


sublinear = [case for case in regularisers if case.g.is_sublinear]
conjugate = [case for case in regularisers if case.g.conjugate(case.like) is not None]


@pytest.mark.parametrize("case", sublinear, ids=lambda case: case.name)
@examples
@given(data=st.data())
def test_what_is_said_to_be_sublinear_is(case, data):
    x, y = (case.prox(data.draw(case.points()), 1.0) for _ in range(2))
    assert case.value(0 * x) == 0 and case.value(2 * x) == pytest.approx(2 * case.value(x))
    assert case.value(x + y) <= case.value(x) + case.value(y) + rounding(x, y)


@pytest.mark.parametrize("case", conjugate, ids=lambda case: case.name)
@examples
@given(data=st.data())
def test_the_conjugate_meets_its_line_where_the_subgradient_is_taken(case, data):
    x, s = data.draw(case.points()), data.draw(case.steps())
    p = case.prox(x, s)
    v = (x - p) / s
    found = float(case.g.conjugate(case.point(v)))
    assert found == pytest.approx(v @ p - case.value(p), abs=rounding(x, v) * (1 + norm(v)))


@pytest.mark.parametrize("case", regularisers[::6], ids=lambda case: case.name)
@examples
@given(data=st.data())
def test_scaling_g_is_scaling_the_step(case, data):
    x, s, c = (data.draw(a) for a in (case.points(), case.steps(), st.floats(0.25, 1.0)))
    scaled = replace(case, g=Scaled(case.g, c))
    assert norm(scaled.prox(x, s) - case.prox(x, c * s)) <= rounding(x)
    assert scaled.step_limit == pytest.approx(case.step_limit / c)


norms = {
    "L1": (L1, 8),
    "L2Norm": (L2Norm, 8),
    "LInf": (LInf, 8),
    "Relu": (Relu, 8),
    "TotalVariation": (TotalVariation, 8),
    "Nuclear": (Nuclear, (4, 3)),
    "GroupL2": (lambda weight: GroupL2.of([0, 0, 1, -1, 1, 2, 1, 2], weight), 8),
}


@pytest.mark.parametrize("name", norms)
@examples
@given(data=st.data())
def test_prox_of_a_norm_scales_with_the_point_and_trades_weight_for_step(name, data):
    kind, shape = norms[name]
    case = Case(name, kind(0.7), jnp.zeros(shape))
    x, s, c = (data.draw(a) for a in (case.points(), case.steps(), st.floats(0.1, 10.0)))
    p = case.prox(x, s)
    assert norm(replace(case, g=kind(0.7 * s)).prox(x, 1.0) - p) <= rounding(x)
    assert norm(case.prox(c * x, c * s) / c - p) <= rounding(x)


@each
def test_value_and_prox_are_finite_at_zero(case):
    p = case.prox(np.zeros(case.size), case.longest)
    assert np.isfinite(p).all() and np.isfinite(case.value(p))
