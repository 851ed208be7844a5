"""Every kind of regulariser under jit, vmap and single precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.linalg import norm

from proxfl.prox import L1, Ridge
from tests.cases_prox import EPS, flat, regularisers

# One of each class: compiling is slow, and wrappers only forward to what is tried by itself.
classes = {type(case.g): case for case in regularisers}.values()
each = pytest.mark.parametrize("case", classes, ids=lambda case: case.name)


def draw(case, seed):
    return 2 * np.random.default_rng(seed).normal(size=case.size)


@each
def test_compiled_is_eager(case):
    x, grad = draw(case, seed=3), draw(case, seed=4)
    p = case.g.prox(case.point(x), 0.5)
    rounding = float(64 * EPS * (1 + norm(x)))
    assert norm(case.prox(x, 0.5) - flat(p)) <= rounding
    assert case.value(flat(p)) == pytest.approx(float(case.g.value(p)), abs=rounding)
    eager = float(case.g.distance(p, case.point(grad)))
    assert case.distance(flat(p), grad) == pytest.approx(eager, rel=64 * EPS)


@each
def test_a_batch_is_one_point_at_a_time(case):
    points, steps = [draw(case, seed=i) for i in range(3)], [0.1, 0.5, 1.5]
    grad = draw(case, seed=9)

    def follow(x, step):
        p = case.g.prox(case.point(x), step)
        return flat(p), case.g.value(p), case.g.distance(p, case.point(grad))

    batch = jax.jit(jax.vmap(follow))(jnp.array(points), jnp.array(steps))
    for p, value, distance, x, step in zip(*batch, points, steps, strict=True):
        rounding = float(64 * EPS * (1 + norm(x) + norm(grad)))
        assert norm(p - case.prox(x, step)) <= rounding
        assert float(value) == pytest.approx(case.value(p), abs=rounding)
        assert float(distance) == pytest.approx(case.distance(p, grad), abs=rounding)


@each
def test_single_precision_stays_single_and_close(case):
    """As close as rounding the point, for a prox of a convex g does not stretch.

    The precision is that of the point, whatever arrays g itself holds.
    """
    x = draw(case, seed=3)
    x32 = jax.tree.map(lambda a: a.astype(jnp.float32), case.point(x))

    @jax.jit
    def follow(g, x):
        p = g.prox(x, 0.5)
        return p, g.value(p), g.distance(p, x), jnp.ones((), jnp.float32) * g.bound(x)

    p32, value, *rest = follow(case.g, x32)
    assert {leaf.dtype for leaf in jax.tree.leaves((p32, value, rest))} == {np.dtype(np.float32)}
    assert np.isfinite(value)
    stretch = 1 / (1 - 0.5 / case.step_limit)
    gap = np.asarray(flat(p32), np.float64) - case.prox(x, 0.5)
    assert norm(gap) <= 64 * stretch * np.finfo(np.float32).eps * (1 + norm(x))


def test_weights_can_be_swept_in_one_call():
    x, many = jnp.array([3.0, -1.0, 0.5]), [Ridge(L1(w), 0.5 * w) for w in (0.1, 1.0, 2.0)]
    stacked = jax.tree.map(lambda *leaves: jnp.array(leaves), *many)
    swept = jax.vmap(lambda g: g.prox(x, 1.0))(stacked)
    for g, p in zip(many, swept, strict=True):
        np.testing.assert_allclose(p, g.prox(x, 1.0), rtol=4 * EPS)
