"""No row pulls harder than it may; a clip that no row reaches changes nothing."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import proxfl as px
from proxfl.losses import Clipped, Coefficients, Logistic, Poisson, Softmax, Squared
from proxfl.points import Tree

ROWS, COLUMNS, CLASSES = 7, 3, 4


def example(loss, seed=0, sparse=False):
    """A model and rows for it, some of them long."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(ROWS, COLUMNS)) * np.geomspace(0.1, 100, ROWS)[:, None]
    outputs = (CLASSES,) if isinstance(loss, Softmax) else ()
    y = rng.integers(0, CLASSES, ROWS) if outputs else np.sign(rng.normal(size=ROWS))
    coef, intercept = rng.normal(size=(COLUMNS, *outputs)), rng.normal(size=outputs)
    x = Tree(Coefficients(jnp.asarray(coef), jnp.asarray(intercept)))
    shard = px.shards_of([(scipy.sparse.csr_array(A) if sparse else A, y)])
    return x, jax.tree.map(lambda a: a[0], shard.examples)


def flat(x):
    return jax.flatten_util.ravel_pytree(x)[0]


def row_by_row(loss, x, batch):
    """The gradient of each row alone, by its weight."""
    alone = jnp.eye(ROWS)
    return np.stack([flat(loss.gradient(x, batch, alone[i])) for i in range(ROWS)])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Softmax()])
def test_the_gradient_is_the_sum_of_the_rows_each_shortened_to_the_clip(loss, sparse):
    x, batch = example(loss, sparse=sparse)
    each = row_by_row(loss, x, batch)
    lengths = np.linalg.norm(each, axis=1)
    longest = float(np.median(lengths))
    shortened = each * np.minimum(1, longest / lengths)[:, None]
    found = Clipped(loss, longest).gradient(x, batch, jnp.full(ROWS, 1 / ROWS))
    np.testing.assert_allclose(flat(found), shortened.mean(axis=0), rtol=1e-12)
    found = Clipped(loss, 2 * lengths.max()).gradient(x, batch, jnp.full(ROWS, 1 / ROWS))
    np.testing.assert_allclose(flat(found), each.mean(axis=0), rtol=1e-12)


def test_a_row_whose_gradient_overflows_does_not_count():
    x, (A, y) = example(Squared())
    huge = A.at[2].set(1e200)
    rest = jnp.ones(ROWS).at[2].set(0.0)
    found = Clipped(Squared(), 1.0).gradient(x, (huge, y), jnp.ones(ROWS))
    np.testing.assert_array_equal(
        flat(found), flat(Clipped(Squared(), 1.0).gradient(x, (A, y), rest))
    )


def test_a_row_of_tiny_features_pulls_no_harder_either():
    """Their squares vanish; with a slope that is large enough, what the row adds would not."""
    x, A = jnp.zeros(2), jnp.array([[1e-165, -1e-165], [1.0, 2.0]])
    slopes = jnp.array([700.0, 0.0])  # as an offset: exp(700) is 1e304
    batch = A, jnp.zeros(2), slopes
    assert abs(Poisson().gradient(x, batch, jnp.ones(2))).max() > 1e138
    found = Clipped(Poisson(), 1.0).gradient(x, batch, jnp.array([1.0, 0.0]))
    assert jnp.linalg.norm(found) <= 1.0
