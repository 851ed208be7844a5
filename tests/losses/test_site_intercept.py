"""The loss with the best intercept of a site: its minimum, its slopes, its Schur complement."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from proxfl.losses import Gamma, Huber, Logistic, NegativeBinomial, Poisson, SiteIntercept, Squared

ROWS = 12
LOSSES = [Squared(), Logistic(), Poisson(), Huber(0.3), Gamma(), NegativeBinomial(0.5)]
run = lambda name: jax.jit(lambda loss, *about: getattr(loss, name)(*about), static_argnums=0)
value, slopes, level, dual, exists = map(run, ("at", "slopes", "level", "dual", "exists"))


@partial(jax.jit, static_argnums=0)
def bend(loss, z, y, w, v):
    """The second derivative times v, as Newton's method takes it: that of the slopes."""
    return jax.jvp(lambda z: loss.slopes(z, y, w), (z,), (v,))[1]


def rows(loss, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    z, w = scale * rng.normal(size=ROWS) + 3 * scale, rng.random(ROWS)
    y = {"logistic": rng.choice([-1.0, 1.0], ROWS), "squared": rng.normal(size=ROWS)}
    y |= {"huber": rng.normal(size=ROWS)}
    y = y.get(loss.name, rng.poisson(3.0, ROWS) + 1.0)
    w[-2:] = 0.0
    return jnp.asarray(z), jnp.asarray(y), jnp.asarray(w / w.sum())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_intercept_is_the_best_one_to_machine_precision(loss, scale):
    z, y, w = rows(loss, scale)
    b, about = float(level(SiteIntercept(loss), z, y, w)), SiteIntercept(loss)
    best = minimize_scalar(lambda b: float(value(loss, z + b, y, w)), (b - 1, b + 1), tol=1e-12)
    assert float(value(about, z, y, w)) <= best.fun + 1e-13 * abs(best.fun)
    found = np.asarray(slopes(about, z, y, w))
    assert abs(found.sum()) <= 1e-14 * np.abs(found).sum() and not found[-2:].any()


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.name != "huber"], ids=repr)
def test_slopes_are_the_derivative_and_bend_the_schur_complement(loss):
    z, y, w = rows(loss)
    about = SiteIntercept(loss)
    expected = jax.jit(jax.grad(about.at))(z, y, w)
    np.testing.assert_allclose(slopes(about, z, y, w), expected, atol=1e-13)
    H = jnp.diag(w * jax.vmap(loss.second)(z + level(about, z, y, w), y))
    one = H @ jnp.ones(ROWS)
    found = jax.vmap(lambda v: bend(about, z, y, w, v))(jnp.eye(ROWS))
    np.testing.assert_allclose(found, H - jnp.outer(one, one) / one.sum(), atol=1e-13)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_dual_is_the_conjugate_of_slopes_that_sum_to_zero(loss):
    z, y, w = rows(loss)
    about = SiteIntercept(loss)
    conjugate, u = dual(about, z, y, w, jnp.asarray(1.0))
    assert float(conjugate) == pytest.approx(float(u @ z - value(about, z, y, w)), abs=1e-12)
    bound, _ = dual(about, z, y, w, jnp.asarray(0.6))
    for seed in range(5):
        other = rows(loss, seed=seed + 1)[0]
        assert float(bound) >= float(0.6 * u @ other - value(about, other, y, w)) - 1e-12


def test_it_exists_where_the_loss_turns():
    z = jnp.zeros(ROWS)
    for loss, y in ((Logistic(), jnp.ones(ROWS)), (Poisson(), jnp.zeros(ROWS))):
        w = jnp.full(ROWS, 1 / ROWS)
        assert not exists(SiteIntercept(loss), z, y, w)
        assert exists(SiteIntercept(loss), z, y.at[0].set(2.0 - 3 * y[0]), w)
    assert exists(SiteIntercept(Squared()), z, 1e20 * jnp.ones(ROWS), jnp.full(ROWS, 1 / ROWS))
