"""What every engine shares: the key of a place, one client's visit, and the mean over clients."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from proxfl.core import Algorithm, Received, Reply, expand
from proxfl.points import Scalar
from proxfl.problem import Problem, Shard


@jax.jit
def round_key(key: PRNGKeyArray, *place: Any) -> PRNGKeyArray:
    """The key that belongs to a place, such as (round, exchange, client).

    It depends on the place alone, so a resumed, reordered or deployed run draws the same.
    """
    for part in place:
        key = jax.random.fold_in(key, part)
    return key


@partial(jax.jit, static_argnames="exchange")
def visit(
    algorithm: Algorithm,
    problem: Problem,
    shard: Shard,
    state: Any,
    down: Any,
    key: PRNGKeyArray,
    *,
    exchange: int = 0,
) -> Reply:
    """One client's part of one exchange."""
    f = problem.objective(shard)
    return algorithm.exchanges()[exchange].client(f, problem.g, state, down, key)


def weigh(stacked: Any, weights: Float[Array, " clients"]) -> tuple[Any, Scalar]:
    """The weighted sum of what clients sent, compact parts of it written out, and the weight."""
    total = jax.tree.map(lambda a: jnp.tensordot(weights, a, axes=1), jax.vmap(expand)(stacked))
    return total, weights.sum()


def received(total: Any, share: Scalar, key: PRNGKeyArray) -> tuple[Received, dict[str, Scalar]]:
    """What the server gets of the weighted sum over clients of (uplinks, metrics)."""
    mean, info = jax.tree.map(lambda a: a / share, total)
    return Received(mean, share, key), info
