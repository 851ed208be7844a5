"""What a site may be asked besides an algorithm's exchanges; each answer is a summary, never rows.

A task maps (problem, shard, payload) to a dictionary of arrays; payload and answer are what would
cross the network.
"""

from collections.abc import Callable
from typing import Any

import jax

from proxfl.problem import Problem, Shard
from proxfl.smoothness import curvature_bound


@jax.jit
def curvature(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The site's local smoothness at x: one number."""
    return {"curvature": curvature_bound(problem, shard, payload["x"], jax.random.key(0))}


@jax.jit
def evaluate(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The site's mean loss at x and its full gradient: one number and one vector."""
    f = problem.objective(shard)
    return {"value": f.value(payload["x"]), "gradient": f.full_grad(payload["x"])}


TASKS: dict[str, Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]] = {
    "curvature": curvature,
    "evaluate": evaluate,
}
