"""Draw a minibatch: b distinct rows of the first m, every subset equally likely."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray


def draw(key: PRNGKeyArray, rows: Int[Array, ""], batch: int, capacity: int) -> Int[Array, " b"]:
    """`batch` distinct indices below `rows`, which is traced; `capacity` bounds it."""
    few = batch * batch <= 4 * capacity  # Floyd compares all pairs, sorting touches all rows
    return floyd(key, rows, batch) if few else lowest_ranks(key, rows, batch, capacity)


def floyd(key: PRNGKeyArray, rows: Int[Array, ""], batch: int) -> Int[Array, " b"]:
    """Floyd's sampling without its loop.

    Draw t_j below rows - b + j + 1 for each j; keep t_j, or take the top value rows - b + j where
    t_j is in the sample already. It is when an earlier draw equals it, or when it is the top value
    of an earlier j that itself had to take it: a chain of pointers, followed by doubling.
    """
    j = jnp.arange(batch, dtype=rows.dtype)
    top = rows - batch + j
    drawn = jax.random.randint(key, (batch,), 0, top + 1, dtype=rows.dtype)
    repeats = jnp.tril(drawn[:, None] == drawn[None, :], k=-1)
    taken = repeats.any(axis=1)
    earlier = drawn - (rows - batch)
    pointer = jnp.where((earlier >= 0) & (earlier < j), earlier, j)
    for _ in range(math.ceil(math.log2(batch + 1))):
        taken, pointer = taken | taken[pointer], pointer[pointer]
    return jnp.where(taken, top, drawn)


def lowest_ranks(
    key: PRNGKeyArray, rows: Int[Array, ""], batch: int, capacity: int
) -> Int[Array, " b"]:
    """Give every row a random rank and take the lowest; rows past the end rank last."""
    index = jnp.arange(capacity, dtype=rows.dtype)
    rank = jnp.where(index < rows, jax.random.uniform(key, (capacity,)), 2.0)
    return jnp.argsort(rank)[:batch].astype(rows.dtype)
