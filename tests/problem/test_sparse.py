"""Laws of sparse features: they are their dense form, whichever way a product is taken."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import proxfl as px
from proxfl.engine.smoothness import curvature_bound, smoothness
from proxfl.losses import Coefficients, Huber, Logistic, Softmax, Squared
from proxfl.problem import sparse
from proxfl.prox import L1, OnLeaves

ROWS, D = (7, 12, 5, 9), 11


@pytest.fixture(params=["in the program", "by SciPy"])
def way(request, monkeypatch):
    """Both ways of multiplying, whatever the size; programs do not outlive the choice."""
    jax.clear_caches()
    monkeypatch.setattr(sparse, "WORTH_A_TRIP", 0 if request.param == "by SciPy" else 10**9)


def features(rows=ROWS, seed=0):
    """A matrix per client; the first has an empty row, the last no entry at all."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(m, D)) * (rng.uniform(size=(m, D)) < 0.3) for m in rows]
    made[0][2] = 0.0
    made[-1][:] = 0.0
    return made


def both(labels):
    """The same sites, dense and sparse."""
    dense = [(A, labels(len(A), k)) for k, A in enumerate(features())]
    return dense, [(scipy.sparse.csc_array(A), y) for A, y in dense]


def signs(rows, k):
    return np.random.default_rng(k).choice([-1.0, 1.0], rows)


def classes(rows, k):
    return np.random.default_rng(k).integers(0, 3, rows)


def with_intercept(*outputs):
    return px.Tree(Coefficients(np.zeros((D, *outputs)), np.zeros(outputs)))


PROBLEMS = {
    "logistic": (Logistic(), signs, np.zeros(D), L1(0.01)),
    "intercept": (Huber(0.5), signs, with_intercept(), OnLeaves(L1(0.01), ("coef",))),
    "softmax": (Softmax(), classes, with_intercept(3), OnLeaves(L1(0.01), ("coef",))),
}


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_on_sparse_rows_is_the_run_on_dense_ones(name, batch, way):
    loss, labels, x0, g = PROBLEMS[name]
    problem = px.Problem(loss=loss, g=g, x0=x0, batch=batch)
    found = [
        px.simulate(px.Decoupled(0.1, 1.0, 3), problem, sites, rounds=6, weights="samples")
        for sites in both(labels)
    ]
    for a, b in zip(*(jax.tree.leaves(result.model) for result in found), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    for key in ("objective", "optimality"):
        np.testing.assert_allclose(*(result.history[key] for result in found), rtol=1e-10)


def test_blocks_cohorts_and_sweeps_see_the_same_rows(way):
    dense, thin = (px.shards_of(sites) for sites in both(signs))
    problem = px.Problem(loss=Logistic(), g=L1(0.01), x0=np.zeros(D))
    run = lambda shards, **more: (
        px.simulate(px.DecoupledPartial(0.1, 1.0, 2), problem, shards, rounds=5, **more).model
    )
    for more in ({"block": 3}, {"cohort": 2}, {"cohort": 3, "block": 2}):
        np.testing.assert_allclose(run(thin, **more), run(dense, **more), atol=1e-12)

    def at(eta, shards):
        x = jnp.full(D, eta)
        return jax.vmap(lambda shard: problem.objective(shard).full_grad(x))(shards)

    etas = jnp.array([0.1, 0.2])
    found = [jax.vmap(at, in_axes=(0, None))(etas, shards) for shards in (thin, dense)]
    np.testing.assert_allclose(*found, atol=1e-12)


def test_numbers_keep_their_precision_where_jax_is_in_single_by_default(tmp_path):
    """In a process of its own, with JAX's own settings: the host works in another thread."""
    code = """
import numpy as np, scipy.sparse
import proxfl as px
from proxfl.problem import sparse
from proxfl.losses import Logistic
from proxfl.prox import L1

sparse.WORTH_A_TRIP = 0
rng = np.random.default_rng(0)
dense = [(rng.normal(size=(9, 5)), rng.choice([-1.0, 1.0], 9)) for _ in range(3)]
thin = [(scipy.sparse.csr_array(A), y) for A, y in dense]
for kind, error in ((np.float64, 1e-13), (np.float32, 1e-5)):
    problem = px.Problem(loss=Logistic(), g=L1(0.01), x0=np.zeros(5, kind))
    run = lambda sites: px.simulate(px.Decoupled(0.1, 1.0, 2), problem, sites, rounds=9).model
    found, wanted = run(thin), run(dense)
    assert found.dtype == kind
    np.testing.assert_allclose(found, wanted, atol=error)
print("agreed")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.stdout.strip() == "agreed", done.stderr


def test_curvature_is_that_of_the_dense_rows(way):
    dense, thin = (px.shards_of(sites) for sites in both(signs))
    problem = px.Problem(loss=Squared(), g=L1(0.01), x0=jnp.zeros(D))
    key = jax.random.key(0)
    measured = [smoothness(problem, shards, problem.x0, key) for shards in (thin, dense)]
    np.testing.assert_allclose(*measured, rtol=1e-12)
    one = lambda shards: jax.tree.map(lambda a: a[1], shards)
    bounds = [curvature_bound(problem, one(shards), problem.x0, key) for shards in (thin, dense)]
    np.testing.assert_allclose(*bounds, rtol=1e-12)


def test_storage_stays_close_to_that_of_the_raw_rows():
    """Three times the compressed rows at most, whatever the lengths of the rows."""
    rng = np.random.default_rng(0)
    lengths = rng.geometric(1 / 40, size=500).clip(max=2000)  # a few rows are long
    columns = [rng.choice(5000, k, replace=False) for k in lengths]
    starts = np.r_[0, np.cumsum(lengths)]
    raw = scipy.sparse.csr_array(
        (rng.normal(size=starts[-1]), np.concatenate(columns), starts), shape=(500, 5000)
    )
    stacked = px.shards_of([(raw, np.ones(500))] * 3).examples[0]
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(stacked))
    assert held <= 3 * 3 * (12 * raw.nnz + 4 * 501)


def test_bad_sparse_rows_are_refused_like_dense_ones():
    bad = scipy.sparse.csr_array(np.array([[0.0, 1.0], [0.0, np.nan]]))
    with pytest.raises(ValueError, match="Client 0 has a value that is not finite, first in row 1"):
        px.shards_of([(bad, np.ones(2))])
    wide = scipy.sparse.csr_array(np.ones((2, 3)))
    narrow = scipy.sparse.csr_array(np.ones((2, 2)))
    with pytest.raises(ValueError, match="Clients disagree on the shape of an example"):
        px.shards_of([(wide, np.ones(2)), (narrow, np.ones(2))])
