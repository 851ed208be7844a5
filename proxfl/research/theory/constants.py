"""The constants of the theorems, each proven for every point or only seen on a path.

L        the largest smoothness of any client's loss,
L_f      the smoothness of the mean loss,
sigma2   the largest variance of one sample's gradient at any client,
mu       of strong convexity, or of the proximal PL inequality, which the former implies,
B_g      the longest subgradient of g.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.engine.blocks import mean_over_clients
from proxfl.engine.smoothness import curvature_bound, mean_curvature_bound, most_curved
from proxfl.losses import as_loss
from proxfl.points import Point, dot, size
from proxfl.problem import Problem, Shard

DENSE = 500  # parameters up to which Hessians are formed and their eigenvalues known


class Constant(NamedTuple):
    """A number, and whether it is proven to hold at every point."""

    value: float
    proven: bool

    @property
    def known(self) -> bool:
        """A constant of contraction that nothing was found of is 0 and not proven."""
        return self.proven or self.value > 0


class Constants(NamedTuple):
    clients: int
    effective: float  # 1 / sum of squared weights: the clients, if they weigh the same
    smoothness: Constant  # L
    mean_smoothness: Constant  # L_f
    variance: Constant  # sigma2
    proximal_pl: Constant  # mu of Theorem 3.6
    strong_convexity: Constant  # mu of Theorem 3.7; a proven 0 if there is none
    subgradient: Constant  # B_g; infinite for indicators
    convex_penalty: bool


def estimate(
    problem: Problem, shards: Shard, path: Sequence[Point], optimum: float | None = None
) -> Constants:
    """The constants, from the data where those tell, else from points on a path (say, of a run).

    What is not proven is the worst that was seen, so the truth may be worse: a larger L or sigma2,
    a smaller mu. `optimum` is F*, if known.
    """
    largest, mean = smoothness(problem, shards, path)
    convex = strong_convexity(problem, shards, path)
    pl = convex
    if not (convex.proven and convex.value > 0):
        seen = [proximal_pl(problem, shards, x, optimum) for x in path if optimum is not None]
        smallest = min(seen, default=0.0)
        pl = Constant(smallest if math.isfinite(smallest) else 0.0, False)
    variance = max(float(jnp.max(sample_variance(problem, shards, x))) for x in path)
    return Constants(
        clients=shards.size.shape[0],
        effective=float(1 / jnp.sum(shards.weight**2)),
        smoothness=largest,
        mean_smoothness=mean,
        variance=Constant(variance, False),
        proximal_pl=pl,
        strong_convexity=convex,
        subgradient=Constant(float(problem.g.bound(problem.x0)), True),
        convex_penalty=math.isinf(float(problem.g.step_limit)),
    )


def smoothness(problem: Problem, shards: Shard, path: Sequence[Point]) -> tuple[Constant, Constant]:
    """L and L_f: proven for a linear model of bounded curvature, else the largest on the path.

    Beyond DENSE parameters they come from power iteration, which approaches them from below.
    """
    bounded = math.isfinite(as_loss(problem.loss).curvature)
    points, key = (path[:1] if bounded else path), jax.random.key(0)
    if size(problem.x0) > DENSE:
        each = [
            jnp.max(jax.lax.map(lambda s, x=x: curvature_bound(problem, s, x, key), shards))
            for x in points
        ]
        mean = [mean_curvature_bound(problem, shards, x, key) for x in points]
        return Constant(float(max(each)), False), Constant(float(max(mean)), False)
    spans = [spectra(*most_curved(problem, shards, x, over=jax.vmap), x) for x in points]
    largest, mean = (float(max(jnp.max(jnp.abs(s[i])) for s in spans)) for i in (0, 1))
    return Constant(largest, bounded), Constant(mean, bounded)


def strong_convexity(problem: Problem, shards: Shard, path: Sequence[Point]) -> Constant:
    """The smallest eigenvalue of the mean Hessian, or 0 if it is not positive: a proof of none."""
    if size(problem.x0) > DENSE:
        return Constant(0.0, False)
    loss = as_loss(problem.loss)
    if loss.least_curvature > 0:
        _, alike, rows = most_curved(problem, shards, path[0], over=jax.vmap)
        return Constant(least(spectra(loss.least_curvature, alike, rows, path[0])[1]), True)
    seen = min(least(spectra(1.0, problem, shards, x)[1]) for x in path)
    return Constant(seen, seen == 0)


def least(eigenvalues: Float[Array, " d"]) -> float:
    """The smallest, or 0 if it is below what rounding makes of 0."""
    rounding = len(eigenvalues) * jnp.finfo(eigenvalues.dtype).eps * jnp.abs(eigenvalues).max()
    return float(jnp.where(eigenvalues[0] > rounding, eigenvalues[0], 0.0))


def spectra(factor: float, problem: Problem, shards: Shard, x: Point):
    """The eigenvalues of every client's Hessian at x, and of their mean, times a factor."""
    each = hessians(problem, shards, x)
    mean = jnp.tensordot(shards.weight, each, axes=1)
    return factor * jnp.linalg.eigvalsh(each), factor * jnp.linalg.eigvalsh(mean)


@jax.jit
def hessians(problem: Problem, shards: Shard, x: Point) -> Float[Array, "clients d d"]:
    """Every client's Hessian at x, by flat coordinates."""
    flat, unravel = jax.flatten_util.ravel_pytree(x)

    def one(shard: Shard):
        grad = problem.objective(shard).full_grad
        hessian = jax.jacfwd(lambda v: jax.flatten_util.ravel_pytree(grad(unravel(v)))[0])(flat)
        return (hessian + hessian.T) / 2

    return jax.lax.map(one, shards)


@jax.jit
def sample_variance(problem: Problem, shards: Shard, x: Point):
    """Every client's mean squared distance of one sample's gradient from the client's own."""

    def one(shard: Shard):
        mean = problem.objective(shard).full_grad(x)

        def deviation(row):
            example = jax.tree.map(lambda a: a[row][None], shard.examples)
            alone = Shard(example, jnp.ones_like(shard.size), shard.weight)
            difference = problem.objective(alone).full_grad(x) - mean
            return dot(difference, difference)

        squares = jax.lax.map(deviation, jnp.arange(shard.capacity), batch_size=64)
        return shard.row_weights(squares.dtype) @ squares

    return jax.lax.map(one, shards)


def proximal_pl(problem: Problem, shards: Shard, x: Point, optimum: float) -> float:
    """The largest mu with mu (F(x) - F*) <= D_g(x, mu) / 2 at this point, by bisection.

    D_g / (2 mu) falls as mu grows, so the inequality holds up to one value and not beyond.
    """
    loss, gradient = evaluate(problem, shards, x)
    gap = float(loss + problem.g.value(x)) - optimum
    if gap <= 1e-12 * max(1.0, abs(optimum)):
        return math.inf  # at the optimum every mu will do

    def gain(mu: float) -> float:
        y = problem.g.prox(x - gradient / mu, 1 / mu)
        step = y - x
        model = dot(gradient, step) + mu / 2 * dot(step, step)
        return -float(model + problem.g.value(y) - problem.g.value(x))

    low, high = 1e-12, 1e12
    if gain(low) < gap:
        return 0.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gain(middle) >= gap else (low, middle)
    return low


@jax.jit
def evaluate(problem: Problem, shards: Shard, x: Point):
    loss = mean_over_clients(lambda s: problem.objective(s).value(x), shards)
    return loss, mean_over_clients(lambda s: problem.objective(s).full_grad(x), shards)
