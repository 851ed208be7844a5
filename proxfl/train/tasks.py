"""What a site may be asked besides an algorithm's exchanges; each answer is a summary, never rows.

A task maps (problem, shard, payload) to a dictionary of arrays; payload and answer are what would
cross the network.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from proxfl.engine.smoothness import curvature_bound
from proxfl.losses import scores
from proxfl.problem import Problem, Shard


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
def imbalance(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """How far the slopes at x are from a zero mean: two numbers for each output."""
    loss: Any = problem.loss
    evenly, u, y = slopes(loss, shard, payload["x"])
    return {"imbalance": jnp.tensordot(evenly, jax.vmap(loss.centring.imbalance)(u, y), axes=1)}


@jax.jit
def conjugate(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The mean conjugate of the slopes at x, corrected and scaled, and their gradient unscaled."""
    loss: Any = problem.loss
    evenly, u, y = slopes(loss, shard, payload["x"])
    u = jax.vmap(lambda u, y: loss.centring.corrected(u, y, payload["correction"]))(u, y)
    values = jax.vmap(lambda u, y: loss.conjugate(payload["scale"] * u, y))(u, y)
    pull = jax.vmap(jnp.multiply)(evenly, u)
    return {"value": evenly @ values, "gradient": shard.examples[0].T @ pull}


def slopes(loss: Any, shard: Shard, x: Any) -> tuple[Array, Array, Array]:
    """Each row's weight in the site's mean, 0 for padding, its loss's derivative, its label."""
    A, y = shard.examples
    u = jax.vmap(loss.slope)(scores(x, A), y)
    return shard.row_weights(u.dtype), u, y


TASKS: dict[str, Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]] = {
    "curvature": curvature,
    "evaluate": evaluate,
    "imbalance": imbalance,
    "conjugate": conjugate,
}
