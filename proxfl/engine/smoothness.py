"""How curved the smooth part is: power iteration on Hessian-vector products."""

import math
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from proxfl.core import Algorithm
from proxfl.engine.blocks import mean_over_clients
from proxfl.losses import Squared, as_loss, scores
from proxfl.points import Point, Scalar, norm
from proxfl.problem import Problem, Shard


@runtime_checkable
class Stepped(Protocol):
    """An algorithm whose effective step in one round is eta * eta_g * tau."""

    eta: Any
    eta_g: Any
    tau: int


def largest_curvature(grad, x: Point, key: PRNGKeyArray, steps: int = 40) -> Scalar:
    """The largest absolute eigenvalue of the Jacobian of `grad` at x, from below."""
    flat, unravel = jax.flatten_util.ravel_pytree(x)
    v = unravel(jax.random.normal(key, flat.shape, flat.dtype))
    v = v / norm(v)

    def multiply(_, state):
        v, _ = state
        product = jax.jvp(grad, (x,), (v,))[1]
        size = norm(product)
        return product / jnp.maximum(size, jnp.finfo(flat.dtype).tiny), size

    return jax.lax.fori_loop(0, steps, multiply, (v, jnp.zeros((), flat.dtype)))[1]


def curvature_bound(problem: Problem, shard: Shard, x: Point, key: PRNGKeyArray) -> Scalar:
    """A client's smoothness: for a linear model with bounded curvature everywhere, else at x."""
    factor = bounded_curvature(problem)
    if factor is None:
        return largest_curvature(problem.objective(shard).full_grad, x, key)
    squared = Problem(problem.g, x, Squared())
    return factor * largest_curvature(squared.objective(unlabelled(shard, x)).full_grad, x, key)


def mean_curvature_bound(
    problem: Problem, shards: Shard, x: Point, key: PRNGKeyArray, block: int | None = None
) -> Scalar:
    """The same for the mean loss over clients."""
    factor = bounded_curvature(problem)
    if factor is None:
        return smoothness(problem, shards, x, key, block)
    flat = jax.vmap(lambda shard: unlabelled(shard, x))(shards)
    return factor * smoothness(Problem(problem.g, x, Squared()), flat, x, key, block)


def bounded_curvature(problem: Problem) -> float | None:
    """The largest second derivative of a linear model's loss in a score, if it has a bound."""
    bound = as_loss(problem.loss).curvature
    return bound if math.isfinite(bound) else None


def unlabelled(shard: Shard, x: Point) -> Shard:
    """The same rows, where least squares has half the squared scores for a loss."""
    rows, _ = shard.examples
    return shard._replace(examples=(rows, jnp.zeros_like(scores(x, rows))))


@partial(jax.jit, static_argnames="block")
def smoothness(
    problem: Problem, shards: Shard, x: Point, key: PRNGKeyArray, block: int | None = None
) -> Scalar:
    """The local Lipschitz constant of the mean gradient at x."""

    def grad(x):
        return mean_over_clients(lambda s: problem.objective(s).full_grad(x), shards, block)

    return largest_curvature(grad, x, key)


def advice(algorithm: Algorithm, problem: Problem, shards: Shard, block: int | None) -> str:
    """What to try after a divergence."""
    if not isinstance(algorithm, Stepped):
        return "Lower its step and try again."
    curvature = float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0), block))
    round_step = float(algorithm.eta * algorithm.eta_g) * algorithm.tau
    safe = float(algorithm.eta) / max(2.0, round_step * curvature)
    return (
        f"Its step over one round is eta * eta_g * tau = {round_step:.3g} while 1/L is about "
        f"{1 / curvature:.3g} at the start: try eta={safe:.2g}."
    )
