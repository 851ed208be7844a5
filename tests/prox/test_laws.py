"""Laws of the prox, over every regulariser."""

import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxfl.points import dot, norm
from proxfl.prox import L1, GroupL2, L2Norm, LInf, Nuclear, Relu, Scaled, TotalVariation
from tests.cases_prox import EPS, distance, prox, regularisers, value

each = pytest.mark.parametrize("case", regularisers, ids=lambda case: case.name)
convex = pytest.mark.parametrize(
    "case", [c for c in regularisers if c.convex], ids=lambda c: c.name
)
examples = settings(max_examples=30, deadline=None, derandomize=True)


def rounding(*points):
    """64 roundings at the size of the points: proxes here do a few dozen operations in a row."""
    return 64 * EPS * (1 + sum(float(norm(x)) for x in points))


@each
@examples
@given(data=st.data())
def test_prox_beats_every_other_point(case, data):
    """By the margin that strong convexity of the prox's objective gives, near and far."""
    g, x, y, s = case.g, *(data.draw(a) for a in (case.points(), case.points(), case.steps()))
    p = prox(g, x, s)
    cost = lambda u: value(g, u) + dot(u - x, u - x) / (2 * s)
    least, modulus = cost(p), 1 / s - 1 / g.step_limit
    assert jnp.isfinite(least)
    inside = prox(g, y, s)
    for other in (y, inside, *(p + t * (inside - p) for t in (0.5, 1e-2, 1e-4))):
        margin = modulus / 2 * dot(other - p, other - p)
        size = 1 + least + dot(other - x, other - x) / s + norm(x) * norm(other) / s
        assert least + margin <= cost(other) + 64 * EPS * size


@convex
@examples
@given(data=st.data())
def test_prox_is_firmly_nonexpansive(case, data):
    x, y, s = (data.draw(a) for a in (case.points(), case.points(), case.steps()))
    p, q = prox(case.g, x, s), prox(case.g, y, s)
    slack = rounding(x, y) * (norm(x - y) + norm(p - q))
    assert dot(p - q, p - q) <= dot(p - q, x - y) + slack


@each
@examples
@given(data=st.data())
def test_a_short_step_moves_no_further_than_the_shortest_subgradient(case, data):
    """So a step to 0 gives back every point of the domain, and a projection its own image."""
    x, t = data.draw(case.points()), data.draw(st.sampled_from([1.0, 2.0**-10, 2.0**-40]))
    x = x if case.finite else prox(case.g, x, 1.0)
    s = t * case.longest
    # Weak convexity lets the prox stretch by 1 / (1 - s / step_limit).
    most = s * distance(case.g, x, 0.0 * x) / (1 - s / case.g.step_limit)
    assert norm(prox(case.g, x, s) - x) <= most + rounding(x)


@each
@examples
@given(data=st.data())
def test_scaling_g_is_scaling_the_step(case, data):
    x, s = data.draw(case.points()), data.draw(case.steps())
    c = data.draw(st.floats(0.25, 1.0))
    scaled = Scaled(case.g, c)
    assert norm(prox(scaled, x, s) - prox(case.g, x, c * s)) <= rounding(x)
    assert float(scaled.step_limit) == pytest.approx(float(case.g.step_limit) / c)


norms = [
    (kind, jnp.zeros(shape))
    for kind, shape in [
        (L1, 8),
        (L2Norm, 8),
        (LInf, 8),
        (Relu, 8),
        (TotalVariation, 8),
        (Nuclear, (4, 3)),
        (lambda w: GroupL2.of([0, 0, 1, -1, 1, 2, 1, 2], w), 8),
    ]
]


@pytest.mark.parametrize(("kind", "like"), norms, ids=lambda a: getattr(a, "__name__", ""))
@examples
@given(data=st.data())
def test_prox_of_a_norm_scales_with_the_point_and_trades_weight_for_step(kind, like, data):
    case = regularisers[0]._replace(like=like)
    x, s, c = data.draw(case.points()), data.draw(case.steps()), data.draw(st.floats(0.1, 10.0))
    p = prox(kind(0.7), x, s)
    assert norm(prox(kind(0.7 * s), x, 1.0) - p) <= rounding(x)
    assert norm(prox(kind(0.7), c * x, c * s) / c - p) <= rounding(x)


@each
def test_value_and_prox_are_finite_at_zero(case):
    zero = 0.0 * case.like
    p = prox(case.g, zero, case.longest)
    assert jnp.isfinite(norm(p)) and jnp.isfinite(value(case.g, p))
