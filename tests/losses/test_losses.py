"""Laws of losses: exact slopes, honest curvature, harmless padding, one precision throughout."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.losses import (
    Autodiff,
    Coefficients,
    Huber,
    Linear,
    Logistic,
    Poisson,
    SigmoidLoss,
    Softmax,
    Squared,
    scores_at,
)
from proxfl.points import Tree

LOSSES = [Logistic(), SigmoidLoss(), Squared(), Huber(0.7), Poisson(), Softmax()]
SHAPES = [pytest.param((), id="scalar"), pytest.param((3,), id="outputs")]
BOUNDED = [loss for loss in LOSSES if not isinstance(loss, Poisson)]  # exp(1e3) is infinite


def labels_for(loss, rng, rows, outputs):
    if isinstance(loss, Softmax):
        return rng.integers(0, outputs[0], rows)
    if isinstance(loss, Logistic | SigmoidLoss):
        return rng.choice([-1.0, 1.0], (rows, *outputs))
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, (rows, *outputs)).astype(float)
    return rng.normal(size=(rows, *outputs))


def outputs_for(loss, outputs):
    return (3,) if isinstance(loss, Softmax) else outputs


def problem(loss, outputs, *, scale=1.0, rows=40, cols=5, seed=0):
    """Random data whose scores are of the given size, weights with zeros, and both models."""
    outputs = outputs_for(loss, outputs)
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, cols))
    y = labels_for(loss, rng, rows, outputs)
    coef, intercept = rng.normal(size=(cols, *outputs)), rng.normal(size=outputs)
    size = scale / np.abs(A @ coef).max()
    weights = jnp.asarray(rng.uniform(size=rows) * (rng.uniform(size=rows) < 0.8))
    plain = jnp.asarray(size * coef)
    with_intercept = Tree(Coefficients(plain, jnp.asarray(size * intercept)))
    return (jnp.asarray(A), jnp.asarray(y)), weights, [plain, with_intercept]


def leaves_close(found, expected, rtol):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * max(1.0, float(jnp.abs(b).max())))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("outputs", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_closed_form_is_the_derivative_of_the_weighted_sum(loss, outputs, scale):
    batch, weights, models = problem(loss, outputs, scale=scale)
    for x in models:
        expected = jax.grad(lambda x: weights @ loss(x, batch))(x)
        leaves_close(loss.gradient(x, batch, weights), expected, 1e-12)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
@pytest.mark.parametrize("outputs", SHAPES)
def test_scores_of_a_thousand_stay_finite_and_exact(loss, outputs):
    batch, weights, models = problem(loss, outputs, scale=1e3)
    for x in models:
        assert jnp.isfinite(loss(x, batch)).all()
        expected = jax.grad(lambda x: weights @ loss(x, batch))(x)
        leaves_close(loss.gradient(x, batch, weights), expected, 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_single_rows_are_finite_at_scores_of_both_signs(loss, dtype):
    for size in (-1e3, 1e3):
        z = jnp.array([size, 0.0, -size], dtype) if loss == Softmax() else jnp.array(size, dtype)
        y = jnp.array(0) if loss == Softmax() else jnp.array(1, dtype)
        assert jnp.isfinite(loss.value(z, y))
        assert jnp.isfinite(loss.slope(z, y)).all()
        assert jnp.isfinite(jax.grad(loss.value)(z, y)).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("outputs", SHAPES)
def test_curvature_bounds_every_second_derivative(loss, outputs):
    outputs = outputs_for(loss, outputs)
    rng = np.random.default_rng(1)
    z = jnp.asarray(rng.normal(scale=3.0, size=(500, *outputs)))
    y = jnp.asarray(labels_for(loss, rng, 500, outputs))
    size = math.prod(outputs)
    second = jax.vmap(jax.jacfwd(loss.slope))(z, y).reshape(500, size, size)
    assert jnp.abs(jnp.linalg.eigvalsh(second)).max() <= loss.curvature + 1e-12
    if loss.convex:
        assert jnp.linalg.eigvalsh(second).min() >= loss.least_curvature - 1e-12


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.convex], ids=repr)
@pytest.mark.parametrize("outputs", SHAPES)
def test_second_is_the_derivative_of_the_slope(loss, outputs):
    outputs, rng = outputs_for(loss, outputs), np.random.default_rng(2)
    z = jnp.asarray(rng.normal(scale=2.0, size=(50, *outputs)))
    y = jnp.asarray(labels_for(loss, rng, 50, outputs))
    found, expected = jax.vmap(loss.second)(z, y), jax.vmap(jax.jacfwd(loss.slope))(z, y)
    assert found.shape == expected.shape
    leaves_close(found, expected, 1e-14)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_curvature_is_not_larger_than_it_need_be(loss):
    """Somewhere on a fine grid the second derivative comes within a thousandth of it."""
    z = jnp.linspace(-4.0, 4.0, 2001)
    if loss == Softmax():  # two tied classes far above the third
        z, y = jnp.array([[0.0, 0.0, -40.0]]), jnp.array([0])
    else:
        y = jnp.ones_like(z)
    second = jax.vmap(jax.jacfwd(loss.slope))(z, y).reshape(len(z), z[0].size, z[0].size)
    assert jnp.abs(jnp.linalg.eigvalsh(second)).max() >= 0.999 * loss.curvature


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("outputs", SHAPES)
def test_float32_stays_float32(loss, outputs):
    (A, y), weights, models = problem(loss, outputs)
    single = lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a
    for x in jax.tree.map(single, models):
        batch = jax.tree.map(single, (A, y))
        gradient = loss.gradient(x, batch, single(weights))
        assert loss(x, batch).dtype == jnp.float32
        assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("filling", [-1e30, 0.0, 1e30])
def test_rows_of_weight_zero_add_exactly_nothing_to_the_gradient(loss, dtype, filling):
    (A, y), weights, models = problem(loss, ())
    weights = jnp.ones_like(weights).at[-5:].set(0.0)
    for x in models:
        case = (x, (A.at[-5:].set(filling), y), weights)
        case = jax.tree.map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a, case)
        x, (padded, y_), w = case
        clean = (padded.at[-5:].set(0.0), y_)
        leaves_close(loss.gradient(x, (padded, y_), w), loss.gradient(x, clean, w), 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_are_hashable_equal_and_not_pytrees(loss):
    assert loss == type(loss)(**vars(loss))
    assert hash(loss) == hash(type(loss)(**vars(loss)))
    assert jax.tree.leaves(loss) == [loss]
    assert Huber(1.0) != Huber(2.0)


def test_autodiff_agrees_with_the_closed_form_and_unwraps_trees():
    batch, weights, (plain, tree) = problem(Logistic(), ())

    def fn(params, batch):
        A, y = batch
        coef, intercept = params
        return jax.nn.softplus(-y * (A @ coef + intercept))

    loss = Autodiff(fn)
    found = loss.gradient(tree, batch, weights)
    leaves_close(loss(tree, batch), Logistic()(tree, batch), 1e-12)
    leaves_close(found, Logistic().gradient(tree, batch, weights), 1e-12)
    array = Autodiff(lambda coef, batch: Logistic()(coef, batch))
    expected = Logistic().gradient(plain, batch, weights)
    leaves_close(array.gradient(plain, batch, weights), expected, 1e-12)
    assert hash(loss) == hash(Autodiff(fn)) and loss == Autodiff(fn)


def test_scores_add_the_intercept_to_every_row():
    (A, y), _, (plain, tree) = problem(Softmax(), (3,))
    wanted = A @ plain + tree.params.intercept[None, :]
    np.testing.assert_array_equal(scores_at(tree, (A, y)), wanted)


def test_whole_number_labels_work_without_a_cast():
    (A, y), weights, (plain, _) = problem(Logistic(), ())
    with jax.numpy_dtype_promotion("standard"):
        found = Logistic().gradient(plain, (A, y.astype(jnp.int32)), weights)
    leaves_close(found, Logistic().gradient(plain, (A, y), weights), 0.0)


@pytest.mark.parametrize(
    "loss, good, bad, words",
    [
        (Logistic(), [-1.0, 1.0], [0, 1], "-1 or +1, got values {0, 1}; map them first."),
        (SigmoidLoss(), [1, 1], [1.0, 2.0], "got values {1.0, 2.0}; map them first."),
        (Squared(), [0.3, -9.0], [1.0, np.nan], "finite, got values {1.0, nan}; drop"),
        (Huber(), [0.3, -9.0], [1.0, np.inf], "finite, got values {1.0, inf}; drop"),
        (Poisson(), [0, 7], [-1, 2], "counts, got values {-1, 2}; drop"),
        (Softmax(), [0, 2], [0.0, 1.0], "integers from 0, got values {0.0, 1.0}; number them."),
        (Softmax(), [0, 2], list(range(-1, 9)), "got values {-1, 0, 1, 2, 3, ...}; number them."),
    ],
    ids=repr,
)
def test_bad_labels_are_named_in_a_sentence(loss: Linear, good, bad, words):
    assert loss.check(np.array(good)) is None
    sentence = loss.check(np.array(bad))
    assert sentence is not None and words in sentence
    assert sentence.startswith(type(loss).__name__)
