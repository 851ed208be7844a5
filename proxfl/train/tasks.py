"""What a site may be asked besides an algorithm's exchanges; each answer is a summary, never rows.

A task maps (problem, shard, payload) to a dictionary of arrays; payload and answer are what would
cross the network.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from proxfl import conjugates
from proxfl.losses import scores
from proxfl.problem.shards import Problem, Shard
from proxfl.engine.smoothness import curvature_bound


@jax.jit
def curvature(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The site's local smoothness at x: one number."""
    return {"curvature": curvature_bound(problem, shard, payload["x"], jax.random.key(0))}


@jax.jit
def evaluate(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The site's mean loss at x and its full gradient: one number and one vector."""
    f = problem.objective(shard)
    return {"value": f.value(payload["x"]), "gradient": f.full_grad(payload["x"])}


@jax.jit
def excess(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """How far the slopes at x are from a zero mean: two numbers for each output."""
    loss: Any = problem.loss
    evenly, u, y = slopes(loss, shard, payload["x"])
    told = jax.vmap(lambda u, y: conjugates.excess(loss, u, y))(u, y)
    return {"excess": jnp.tensordot(evenly, told, axes=1)}


@jax.jit
def conjugate(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The mean conjugate of the slopes at x, balanced and scaled, and their gradient unscaled."""
    loss: Any = problem.loss
    evenly, u, y = slopes(loss, shard, payload["x"])
    u = jax.vmap(lambda u, y: conjugates.balanced(loss, u, y, payload["balance"]))(u, y)
    values = jax.vmap(lambda u, y: conjugates.conjugate(loss, payload["scale"] * u, y))(u, y)
    pull = jax.vmap(jnp.multiply)(evenly, u)
    return {"value": evenly @ values, "gradient": shard.examples[0].T @ pull}


def slopes(loss: Any, shard: Shard, x: Any) -> tuple[Array, Array, Array]:
    """Each row's weight in the site's mean, 0 for padding, its loss's derivative, its label."""
    A, y = shard.examples
    u = jax.vmap(loss.slope)(scores(x, A), y)
    real = jnp.arange(len(y), dtype=shard.size.dtype) < shard.size
    return real.astype(u.dtype) / shard.size.astype(u.dtype), u, y


TASKS: dict[str, Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]] = {
    "curvature": curvature,
    "evaluate": evaluate,
    "excess": excess,
    "conjugate": conjugate,
}
