"""How curved the smooth part is: power iteration on Hessian-vector products."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from proxfl.core import Algorithm
from proxfl.engine.blocks import mean_gradient
from proxfl.losses import Squared, as_loss, scores_at
from proxfl.points import Point, Scalar, norm
from proxfl.problem import Problem, Shard


@runtime_checkable
class Stepped(Protocol):
    """An algorithm whose effective step in one round is eta * eta_g * tau."""

    eta: Any
    eta_g: Any
    tau: int


@runtime_checkable
class Proven(Protocol):
    """An algorithm that knows up to which step over one round it is proven to converge, if g is
    convex; with minibatches, to within their noise.
    """

    def longest_proven(self, largest: float, mean: float, noisy: bool) -> float | None: ...


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
    factor, problem, shard = most_curved(problem, shard, x)
    return factor * largest_curvature(problem.objective(shard).full_grad, x, key)


def mean_curvature_bound(
    problem: Problem, shards: Shard, x: Point, key: PRNGKeyArray, block: int | None = None
) -> Scalar:
    """The same for the mean loss over clients."""
    factor, problem, shards = most_curved(problem, shards, x, over=jax.vmap)
    return factor * smoothness(problem, shards, x, key, block)


def most_curved(
    problem: Problem, shard: Shard, x: Point, over: Callable = lambda f: f
) -> tuple[float, Problem, Shard]:
    """A factor and a problem as curved as this one can be; the same problem if there is no bound.

    A linear model's loss is at most as curved as half the squared scores times its largest second
    derivative.
    """
    bound = as_loss(problem.loss).curvature
    if not math.isfinite(bound):
        return 1.0, problem, shard
    rows = shard.examples[0]
    zeros = jnp.zeros_like(over(lambda rows: scores_at(x, (rows, None)))(rows))
    return bound, Problem(problem.g, x, Squared()), shard._replace(examples=(rows, zeros))


@partial(jax.jit, static_argnames="block")
def smoothness(
    problem: Problem, shards: Shard, x: Point, key: PRNGKeyArray, block: int | None = None
) -> Scalar:
    """The local Lipschitz constant of the mean gradient at x."""
    return largest_curvature(lambda x: mean_gradient(problem, shards, x, block), x, key)


def advice(algorithm: Algorithm, problem: Problem, shards: Shard, block: int | None) -> str:
    """What to try after a divergence: a step that is proven to converge, or else 1/L."""
    if not isinstance(algorithm, Stepped):
        return "Lower its step and try again."
    mean = float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0), block))
    if not 0 < mean < math.inf:
        return "Lower its step and try again."
    noisy, limit, words = problem.batch is not None, 1 / mean, "1/L is about"
    if isinstance(algorithm, Proven) and math.isinf(float(problem.g.step_limit)):
        largest = max(mean, largest_of_clients(problem, shards))
        proven = algorithm.longest_proven(largest, mean, noisy)
        if proven is not None:
            within = ", to within the noise of batches," if noisy else ""
            limit, words = proven, f"it is proven to converge{within} up to about"
    round_step = float(algorithm.eta * algorithm.eta_g) * algorithm.tau
    safe = float(algorithm.eta) * min(0.5, limit / round_step)
    return (
        f"Its step over one round is eta * eta_g * tau = {round_step:.3g} while {words} "
        f"{limit:.3g}, by the curvature at the start: try eta={safe:.2g}."
    )


def largest_of_clients(problem: Problem, shards: Shard) -> float:
    """The smoothness of the most curved client, as seen from the start."""
    of_one = lambda shard: curvature_bound(problem, shard, problem.x0, jax.random.key(0))
    return float(jnp.max(jax.lax.map(of_one, shards)))
