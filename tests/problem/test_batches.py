"""A minibatch is a uniformly drawn subset."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from proxfl.problem.batches import draw, floyd, lowest_ranks

samplers = pytest.mark.parametrize(
    "sample", [floyd, lambda key, m, b: lowest_ranks(key, m, b, 11)], ids=["floyd", "ranks"]
)


@samplers
@pytest.mark.parametrize("rows, batch", [(5, 1), (5, 3), (5, 5), (7, 2), (11, 10), (1, 1)])
def test_rows_are_distinct_and_in_range(sample, rows, batch):
    keys = jax.random.split(jax.random.key(0), 500)
    drawn = np.asarray(jax.vmap(lambda key: sample(key, jnp.int32(rows), batch))(keys))
    assert drawn.min() >= 0 and drawn.max() < rows
    assert all(len(set(row)) == batch for row in drawn.tolist())


@samplers
@pytest.mark.parametrize("rows, batch", [(5, 2), (5, 3), (6, 4), (4, 1)])
def test_every_subset_is_equally_likely(sample, rows, batch):
    draws = 20_000
    keys = jax.random.split(jax.random.key(1), draws)
    drawn = np.asarray(jax.vmap(lambda key: sample(key, jnp.int32(rows), batch))(keys))
    subsets = {s: i for i, s in enumerate(itertools.combinations(range(rows), batch))}
    seen = np.bincount([subsets[tuple(sorted(row))] for row in drawn.tolist()])
    assert len(seen) == len(subsets)
    # One fixed key, so the test is deterministic; the level says how odd the draw may look.
    assert stats.chisquare(seen).pvalue > 1e-3


def test_either_sampler_serves_any_batch_size():
    for batch in (1, 10, 40, 100):
        drawn = draw(jax.random.key(0), jnp.int32(100), batch, 120)
        assert len(set(drawn.tolist())) == batch and drawn.max() < 100
