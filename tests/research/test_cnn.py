"""The network: its size, its convolution against JAX's own, and how it transforms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.algorithms.decoupled import Decoupled
from proxfl.engine.measure import ObjectiveValue
from proxfl.engine.simulate import simulate
from proxfl.points import Tree, size
from proxfl.problem import Problem
from proxfl.prox.leaves import OnLeaves
from proxfl.prox.norms import L1
from proxfl.research import cnn
from proxfl.research.half import in_half

RNG = np.random.default_rng(0)
EPS = np.finfo(np.float64).eps


def pictures(rows):
    images = RNG.integers(0, 256, (rows, 28, 28), np.uint8)
    return jnp.asarray(images), jnp.asarray(RNG.integers(0, 10, rows, np.int32))


@pytest.fixture(scope="module")
def params():
    """With biases, which `init` leaves at zero."""
    start = cnn.init(jax.random.key(0), jnp.float64)
    keys = iter(jax.random.split(jax.random.key(1), 5))
    return {
        name: layer | {"bias": jax.random.normal(next(keys), layer["bias"].shape)}
        for name, layer in start.items()
    }


def reference(params, images):
    """The same network by JAX's convolution and window maximum."""
    x = images[..., None].astype(jnp.float64) / 255
    for name in ("conv1", "conv2"):
        kernel, bias = params[name]["kernel"], params[name]["bias"]
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
        x = jax.nn.relu(x + bias[None, None, None])
        window = (1, 2, 2, 1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    x = x.reshape(len(images), -1)
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(x @ params[name]["kernel"] + params[name]["bias"][None])
    return x @ params["dense3"]["kernel"] + params["dense3"]["bias"][None]


def test_it_has_the_papers_number_of_parameters(params):
    assert size(params) == 112_394


@pytest.mark.parametrize("kind", [jnp.float32, jnp.float64])
def test_it_starts_from_hes_variances_in_the_type_asked_for(kind):
    for name, layer in cnn.init(jax.random.key(0), kind).items():
        kernel = np.asarray(layer["kernel"])
        assert kernel.dtype == kind and layer["bias"].dtype == kind
        assert not np.any(layer["bias"])
        fan_in = kernel.size // kernel.shape[-1]
        # The mean of m squares of normal numbers is within 5 deviations, sqrt(2 / m) each, of 1.
        assert abs(np.mean(kernel**2) * fan_in / 2 - 1) < 5 * np.sqrt(2 / kernel.size), name


def test_scores_are_those_of_jaxs_convolution(params):
    images, _ = pictures(3)
    # A score sums some thousands of products of size 1: 1e-12 leaves them all their rounding.
    found, wanted = jax.jit(cnn.logits)(params, images), jax.jit(reference)(params, images)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def test_float16_is_used_for_float32_alone_and_only_if_jax_need_not_be_exact(params):
    images, _ = pictures(3)
    layer, x = params["conv1"], cnn.as_pixels(images, jnp.float64)[..., None]
    found = in_half(cnn.by_cells)
    np.testing.assert_array_equal(found(layer, x), cnn.by_cells(layer, x))
    layer, x = jax.tree.map(lambda a: a.astype(jnp.float32), (layer, x))
    exact = cnn.by_cells(layer, x)
    with jax.default_matmul_precision("highest"):
        np.testing.assert_array_equal(found(layer, x), exact)
    ten_bits = float(jnp.finfo(jnp.float16).eps)
    apart = jnp.abs(found(layer, x) - exact).max()
    assert 0 < apart < 9 * ten_bits * jnp.abs(exact).max()  # of nine products each


def test_slopes_through_float16_keep_its_bits_though_they_are_below_its_range():
    x, slope = jnp.linspace(-1, 1, 9, dtype=jnp.float32), jnp.float32(1e-7)
    value, back = jax.vjp(in_half(lambda x: 3 * x), x)
    assert value.dtype == jnp.float32
    found = back(jnp.full(9, slope))[0]
    np.testing.assert_allclose(found, 3 * slope, rtol=2 * float(jnp.finfo(jnp.float16).eps))
    assert found.dtype == jnp.float32


def test_of_equal_choices_the_first_has_the_derivative():
    z = RNG.integers(0, 3, (50, 4, 3)).astype(np.float64)
    value, back = jax.vjp(cnn.largest, z)
    np.testing.assert_array_equal(value, z.max(axis=1))
    first = np.arange(4)[:, None] == np.argmax(z, axis=1)[:, None]  # NumPy's is the first as well
    np.testing.assert_array_equal(back(jnp.ones_like(value))[0], first)


def total(params, batch):
    return cnn.loss(params, batch).sum()


def same(first, second):
    """Equal up to 1e-12 of the largest entry of each array."""
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())


def test_gradients_are_those_of_jaxs_convolution(params):
    batch = pictures(3)

    def entropy(params, batch):
        images, labels = batch
        return -jnp.sum(jax.nn.log_softmax(reference(params, images))[jnp.arange(3), labels])

    same(jax.jit(jax.grad(entropy))(params, batch), jax.jit(jax.grad(total))(params, batch))


def test_the_gradient_is_the_slope(params):
    batch = pictures(2)
    direction = cnn.init(jax.random.key(2), jnp.float64)
    moved = lambda s: jax.tree.map(lambda a, b: a + s * b, params, direction)
    both = jax.jit(jax.value_and_grad(lambda s: total(moved(s), batch)))
    # Central differences err by h^2 times a third derivative and by rounding / h.
    h = EPS ** (1 / 3)
    slope = (both(h)[0] - both(-h)[0]) / (2 * h)
    value, found = both(0.0)
    assert abs(found - slope) < 1e-7 * abs(value)


def test_a_loss_is_the_cross_entropy_of_the_scores(params):
    images, labels = pictures(4)
    run = jax.jit(lambda p, x, y: (cnn.logits(p, x), cnn.loss(p, (x, y)), cnn.predict(p, x)))
    scores, losses, best = map(np.asarray, run(params, images, labels))
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(losses, -np.log(shares[np.arange(4), labels]), rtol=1e-12)
    np.testing.assert_array_equal(best, scores.argmax(axis=1))


def test_many_rows_are_treated_as_few_are(params, monkeypatch):
    batch = pictures(5)

    def everything(params, batch):
        slopes = jax.grad(total)(params, batch)
        return cnn.loss(params, batch), cnn.predict(params, batch[0]), slopes

    at_once = jax.jit(everything)(params, batch)
    monkeypatch.setattr(cnn, "CHUNK", 2)
    same(at_once, jax.jit(lambda *a: everything(*a))(params, batch))


def test_it_goes_through_vmap_over_clients(params):
    images, labels = pictures(6)
    many = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), params)
    batches = images.reshape(2, 3, 28, 28), labels.reshape(2, 3)
    found = jax.jit(jax.vmap(jax.grad(total)))(many, batches)
    second = jax.tree.map(lambda a: a[1], (many, batches))
    same(jax.tree.map(lambda a: a[1], found), jax.jit(jax.grad(total))(*second))


def test_images_that_are_not_bytes_are_refused_in_a_sentence():
    with pytest.raises(TypeError) as error:
        cnn.as_pixels(jnp.zeros((1, 28, 28)), jnp.float64)
    assert str(error.value) == "images must be bytes from 0 to 255, got float64; convert them."


def test_a_federation_trains_it():
    """Each of two clients holds one kind of picture; together they learn to tell them apart."""
    base = RNG.integers(0, 256, (2, 28, 28), np.uint8)
    sites = [(np.stack([base[i]] * 4), np.full(4, i, np.int32)) for i in range(2)]
    start = Tree(cnn.init(jax.random.key(0)))
    problem = Problem(OnLeaves(L1(1e-4)), start, cnn.loss, batch=2)
    observe = {"objective": ObjectiveValue()}
    with jax.enable_x64(False):
        result = simulate(
            Decoupled(0.02, 1.0, 2), problem, sites, rounds=15, observe=observe, progress=False
        )
        assert list(cnn.predict(result.model.params, base)) == [0, 1]
    assert result.history["objective"][-1] < result.history["objective"][0]
    assert result.bytes_up == 4 * 112_394


@pytest.mark.parametrize(("name", "side"), [("conv1", 28), ("conv2", 14)])
def test_a_convolution_is_the_same_in_the_form_for_each_device(name, side):
    """So are its derivatives."""
    layer = cnn.init(jax.random.key(0), jnp.float64)[name]
    x = jax.random.normal(jax.random.key(1), (3, side, side, layer["kernel"].shape[2]))
    pull = jax.random.normal(jax.random.key(2), (3, side // 2, side // 2, 32))
    found = []
    for form in (cnn.by_patches, cnn.by_cells):
        z, back = jax.vjp(form, layer, x)
        found.append((z, back(pull)))
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
