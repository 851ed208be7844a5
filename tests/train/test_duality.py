"""The duality gap bounds how far an objective is from the least one, and closes at a solution."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from proxfl.losses import Coefficients, Huber, Logistic, Poisson, SigmoidLoss, Softmax, Squared
from proxfl.points import Tree
from proxfl.problem import Problem, shards_of
from proxfl.prox import (
    L1,
    Box,
    GroupL2,
    NonNegative,
    Nuclear,
    OnLeaves,
    Ridge,
    Simplex,
    Zero,
    together,
)
from proxfl.train import duality
from proxfl.train.drivers.adaptive import Solver
from proxfl.train.drivers.driver import Look, Settings, solve
from proxfl.train.local import LocalFederation

D, K = 4, 3
SCALAR = [
    (Logistic(), 1.0),
    (Logistic(), -1.0),
    (Squared(), 0.7),
    (Huber(0.5), 0.7),
    (Poisson(), 2.0),
]


@pytest.mark.parametrize(("loss", "y"), SCALAR, ids=repr)
@pytest.mark.parametrize("z", [-1.5, 0.2, 2.0])
def test_the_conjugate_is_the_largest_difference_to_a_line(loss, y, z):
    u = 0.8 * loss.slope(jnp.asarray(z), jnp.asarray(y))
    found = float(loss.conjugate(u, jnp.asarray(y)))
    below = lambda z: float(loss.value(jnp.asarray(z), jnp.asarray(y)) - u * z)
    least = minimize_scalar(below, bounds=(-30, 30), method="bounded", options={"xatol": 1e-10})
    assert found == pytest.approx(-least.fun, abs=1e-8)


def test_the_conjugate_of_softmax_meets_its_line_where_the_slope_is_taken():
    z, y = jnp.array([0.3, -1.0, 0.5]), jnp.asarray(1)
    u = Softmax().slope(z, y)
    assert float(Softmax().conjugate(u, y)) == pytest.approx(float(u @ z - Softmax().value(z, y)))


def rows(loss, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(40, D)) + 0.3
    if isinstance(loss, Softmax):
        return A, np.argmax(A[:, :K] + rng.normal(size=(40, K)), axis=1).astype(np.int32)
    z = A @ np.array([1.0, -1.0, 0, 0]) + rng.normal(size=40)
    y = {Logistic: np.where(z > 0, 1.0, -1.0), Poisson: np.floor(np.exp(z.clip(-2, 2)))}
    return A, y.get(type(loss), z)


@pytest.mark.parametrize(
    "loss", [Logistic(), Squared(), Huber(0.5), Poisson(), Softmax()], ids=repr
)
def test_corrected_slopes_have_mean_zero_and_finite_conjugates(loss):
    A, y = rows(loss)
    z = A[:, :K] if isinstance(loss, Softmax) else A[:, 0]
    y = jnp.asarray(y)
    u = jax.vmap(loss.slope)(jnp.asarray(z), y)
    by = loss.centring.correction(jnp.mean(jax.vmap(loss.centring.imbalance)(u, y), axis=0))
    moved = jax.vmap(lambda u, y: loss.centring.corrected(u, y, by))(u, y)
    np.testing.assert_allclose(np.mean(moved, axis=0), 0, atol=1e-15)
    assert np.isfinite(jax.vmap(loss.conjugate)(moved, y)).all()
    # No less would do: a mean is no further from 0 than the numbers are moved on the average.
    least = np.abs(np.mean(u, axis=0)).sum()
    assert np.mean(np.abs(moved - u)) * u[0].size == pytest.approx(least, rel=1e-12)
    if isinstance(loss, Huber):
        assert np.abs(moved).max() <= loss.delta


def driver_of(loss, g, intercept=True):
    A, y = rows(loss)
    shape = (D, K) if isinstance(loss, Softmax) else (D,)
    x0 = jnp.zeros(shape)
    if intercept:
        x0, g = Tree(Coefficients(x0, jnp.zeros(shape[1:]))), OnLeaves(g, ("coef",))
    shards = shards_of([(A[:10], y[:10]), (A[10:], y[10:])], "samples")
    problem = Problem(g, g.prox(x0, 1.0), loss)
    return over(problem, shards)


def over(problem, shards):
    settings = Settings(tol=1e-7, accelerate=False)
    return Solver(LocalFederation(problem, shards), problem, np.asarray(shards.weight), settings)


LABELS = np.repeat(np.arange(D)[:, None], K, axis=1)
KNOWN = {
    "l1": (Logistic(), L1(np.array([0.05, 0.1, 0.05, 0.02])), True),
    "l1 without intercept": (Huber(0.5), L1(0.05), False),
    "elastic net": (Poisson(), Ridge(L1(0.05), 0.1), True),
    "l1, x >= 0": (Squared(), together(L1(0.05), NonNegative()), True),
    "box with a ridge": (Squared(), Ridge(Box(-0.2, 0.5), 0.1), True),
    "simplex": (Squared(), Simplex(1.0), True),
    "groups": (Softmax(), GroupL2.of(LABELS, 0.05), True),
    "nuclear": (Softmax(), Nuclear(0.05), True),
}


def looked(driver, x):
    found = driver.evaluate(x)
    objective = found.loss + float(driver.problem.g.value(x))
    return Look(objective, 0.0, 0.0, found.site_losses, found.gradient)


def questions(driver):
    return sum(driver.federation.ledger[kind].exchanges for kind in ("imbalance", "conjugate"))


@pytest.mark.parametrize("name", ["l1", "l1 without intercept", "groups", "box with a ridge"])
def test_at_a_solution_one_question_tells_the_gap_and_one_more_the_intercepts_part(name):
    loss, g, intercept = KNOWN[name]
    driver = driver_of(loss, g, intercept)
    x = solve(driver).x
    duality.duality_gap(driver, g, x, looked(driver, x))
    assert questions(driver) == 1 + intercept


def test_nobody_is_asked_where_the_gradient_tells_that_the_gap_is_too_large():
    loss, g, _ = KNOWN["l1 without intercept"]
    driver = driver_of(loss, g, intercept=False)
    seen = []
    solve(driver, watch=lambda state, records: seen.append(state.known.x))
    for x in seen[:12:4]:
        look = looked(driver, x)
        gap = duality.duality_gap(driver, g, x, look)
        before = questions(driver)
        assert duality.duality_gap(driver, g, x, look, wanted=-1.0) == np.inf
        assert questions(driver) == before
        assert duality.duality_gap(driver, g, x, look, wanted=gap) == gap


@pytest.mark.parametrize("name", KNOWN)
def test_the_gap_is_above_the_excess_and_closes(name):
    loss, g, intercept = KNOWN[name]
    driver = driver_of(loss, g, intercept)
    seen = []
    best = solve(driver, watch=lambda state, records: seen.append(state.known.x))
    gaps = []
    for x in [*seen[:12:4], best.x]:
        objective = looked(driver, x).objective
        gap = duality.duality_gap(driver, g, x, looked(driver, x))
        rounding = 1e-14 * abs(objective)
        assert gap is not None and gap >= objective - best.objective - rounding >= -2 * rounding
        gaps.append(gap)
    assert best.converged and gaps[-1] <= 1e-4 * gaps[0]


def test_the_gap_is_a_bound_whatever_the_tolerance():
    loss, g, _ = KNOWN["l1"]
    driver = driver_of(loss, g)
    best = solve(driver)
    driver.settings = dataclasses.replace(driver.settings, tol=3.0)
    look = looked(driver, driver.problem.x0)
    gap = duality.duality_gap(driver, g, driver.problem.x0, look)
    assert gap is not None and gap >= look.objective - best.objective > 0


def test_the_conjugate_of_a_box_is_its_largest_product():
    v = jnp.array([1.0, -2.0, 0.0, 3.0])
    assert duality.conjugate(Box(-0.2, 0.5), v) == (1.0, pytest.approx(0.5 + 0.4 + 1.5))


def test_units_change_the_coordinates_and_not_the_gap():
    """Features divided by a unit, and the penalty on unit * coefficient: the same problem."""
    loss, g = Squared(), L1(0.1)
    unit = np.array([2.0, 0.5, 1.0, 4.0])
    driver = driver_of(loss, g)
    A, y = rows(loss)
    x = Tree(Coefficients(jnp.array([0.5, -0.3, 0.0, 0.1]), jnp.asarray(0.2)))
    moved = Tree(Coefficients(x.params.coef / unit, x.params.intercept))
    shards = shards_of([(A[:10] * unit, y[:10]), (A[10:] * unit, y[10:])], "samples")
    there = over(driver.problem, shards)
    one = duality.duality_gap(driver, g, x, looked(driver, x)._replace(objective=1.0))
    other = duality.duality_gap(there, g, moved, looked(there, moved)._replace(objective=1.0), unit)
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "g"),
    [(Squared(), Zero()), (Squared(), Box(0.0, np.inf)), (SigmoidLoss(), L1(0.1))],
    ids=repr,
)
def test_where_no_bound_is_known_none_is_told(loss, g):
    driver = driver_of(loss, g)
    x0 = driver.problem.x0
    assert duality.duality_gap(driver, g, x0, looked(driver, x0)) is None


def test_a_coefficient_without_a_penalty_leaves_no_bound():
    g = L1(np.array([0.1, 0.0, 0.1, 0.1]))
    driver = driver_of(Squared(), g)
    x = Tree(Coefficients(jnp.ones(D), jnp.zeros(())))
    assert duality.duality_gap(driver, g, x, looked(driver, x)) is None
