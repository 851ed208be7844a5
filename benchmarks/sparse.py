"""Large sparse regression: one gradient at every site, and what it holds in memory.

100 sites, 2,000 rows each, 20,000 features, 100 entries per row, logistic loss, float64. The peer
is SciPy: the two products A x and A^T y of every site, over the same rows.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import proxfl as px
from benchmarks.side import interleaved, seconds
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.prox import L1

SITES, ROWS, FEATURES, ENTRIES = 100, 2_000, 20_000, 100


def sites(count: int, rows: int, features: int, entries: int) -> list[tuple[Any, np.ndarray]]:
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        columns = np.sort(rng.integers(0, features, (rows, entries)), axis=1)
        values = rng.normal(size=(rows, entries)) / np.sqrt(entries)
        starts = np.arange(0, rows * entries + 1, entries)
        A = scipy.sparse.csr_array(
            (values.ravel(), columns.ravel().astype(np.int32), starts.astype(np.int32)),
            shape=(rows, features),
        )
        A.sum_duplicates()
        made.append((A, rng.choice([-1.0, 1.0], rows)))
    return made


def run(repeats: int = 9) -> dict[str, Any]:
    data = sites(SITES, ROWS, FEATURES, ENTRIES)
    points = np.random.default_rng(1).normal(size=(SITES, FEATURES))
    problem = px.Problem(loss=Logistic(), g=L1(1e-4), x0=np.zeros(FEATURES))
    with precision(np.float64):
        shards = px.shards_of(data)
        x = jnp.asarray(points)
        gradients = jax.jit(jax.vmap(lambda shard, x: problem.objective(shard).full_grad(x)))
        ours = lambda: gradients(shards, x).block_until_ready()

        def products():
            return [A.T @ (A @ v) for (A, _), v in zip(data, points, strict=True)]

        def by_scipy():
            pulls = (-y / (1 + np.exp(y * (A @ v))) for (A, y), v in zip(data, points, strict=True))
            return [A.T @ p / ROWS for (A, _), p in zip(data, pulls, strict=True)]

        first = seconds(ours)
        np.testing.assert_allclose(ours(), np.stack(by_scipy()), atol=1e-12)
        times = interleaved({"proxfl": ours, "SciPy, two products": products}, repeats)
    raw = sum(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes for A, _ in data)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(shards.examples[0]))
    return {
        "what": "the gradient at each of 100 sites, 2,000 rows of 100 entries, 20,000 features",
        "times": times,
        "first call, which compiles, in seconds": first,
        "ours_over_scipy": 1 / times["SciPy, two products"]["times_ours"],
        "bytes_held_over_raw_rows": held / raw,
    }
