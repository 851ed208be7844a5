"""The paper's constants, conditions and bounds, for a problem at hand.

Theorems 3.5 (non-convex), 3.6 (proximal PL) and 3.7 (strongly convex) bound Algorithm 1 in terms of

    L        the largest smoothness of any client's loss,
    sigma2   the largest variance of one sample's gradient at any client,
    mu       the proximal PL constant (3.6) or that of strong convexity (3.7),
    B_g      the longest subgradient of g,

under conditions on eta_round = eta * eta_g * tau and eta_g. Redoing the algebra behind the printed
noise constants (20 in 3.5, 18 in 3.6) gives larger ones unless eta_g >= sqrt(n); both are here.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from proxfl.algorithms.decoupled import Decoupled
from proxfl.engine.blocks import mean_over_clients
from proxfl.engine.smoothness import curvature_bound
from proxfl.points import Point, dot
from proxfl.problem import Problem, Shard


class Constants(NamedTuple):
    clients: int
    smoothness: float  # L
    variance: float  # sigma2
    proximal_pl: float  # mu of Theorem 3.6; 0 if unknown
    strong_convexity: float  # mu of Theorem 3.7; 0 if there is none
    subgradient: float  # B_g; infinite for indicators


def estimate(
    problem: Problem, shards: Shard, path: Sequence[Point], optimum: float | None = None
) -> Constants:
    """The constants, from points on a path (say, of a run); `optimum` is F*, if known.

    L is exact up to power iteration for linear models of bounded curvature and local otherwise.
    sigma2 and mu are the worst seen on the path, so they support no claim away from it.
    """
    x0 = problem.x0
    each = jax.vmap(lambda s: curvature_bound(problem, s, x0, jax.random.key(0)))(shards)
    variance = max(float(jnp.max(sample_variance(problem, shards, x))) for x in path)
    pl = math.inf
    if optimum is not None:
        pl = min(proximal_pl(problem, shards, x, optimum) for x in path)
    convex = min(strong_convexity(problem, shards, x) for x in path)
    return Constants(
        clients=shards.size.shape[0],
        smoothness=float(jnp.max(each)),
        variance=variance,
        proximal_pl=pl if math.isfinite(pl) else 0.0,
        strong_convexity=convex,
        subgradient=float(problem.g.bound(x0)),
    )


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


def strong_convexity(problem: Problem, shards: Shard, x: Point) -> float:
    """The smallest eigenvalue of the mean Hessian at x, or 0 if it is not positive."""
    hessian = mean_hessian(problem, shards, x)
    return max(0.0, float(jnp.linalg.eigvalsh((hessian + hessian.T) / 2)[0]))


def mean_hessian(problem: Problem, shards: Shard, x: Point) -> Float[Array, "d d"]:
    flat, unravel = jax.flatten_util.ravel_pytree(x)

    def gradient(v):
        grad = mean_over_clients(lambda s: problem.objective(s).full_grad(unravel(v)), shards)
        return jax.flatten_util.ravel_pytree(grad)[0]

    return jax.jit(jax.jacfwd(gradient))(flat)


class Condition(NamedTuple):
    """One demand of one theorem on the steps."""

    theorem: str
    holds: bool
    sentence: str


def conditions(constants: Constants, algorithm: Decoupled) -> list[Condition]:
    """Whether (eta, eta_g, tau) is covered by each theorem, and why or why not."""
    n, L, B = constants.clients, constants.smoothness, constants.subgradient
    long, server = float(algorithm.eta_round), float(algorithm.eta_g)
    least, root = max(1.5, math.sqrt(n / 8)), math.sqrt(n)
    bounded = math.isfinite(B), f"subgradients of g are bounded by B_g = {B:.4g}"

    def short(limit: float, words: str):
        sentence = f"eta * eta_g * tau is {long:.4g}, at most {words} = {limit:.4g}"
        return long <= limit * (1 + 1e-12), sentence

    def known(name: str, value: float):
        return value > 0, f"{name} is {value:.4g}, and must be positive"

    smooth = [
        short(1 / (10 * L), "1/(10 L)"),
        (
            server >= least * (1 - 1e-12),
            f"eta_g is {server:.4g}, at least max(1.5, sqrt(n/8)) = {least:.4g}",
        ),
        bounded,
    ]
    strong = [
        short(constants.strong_convexity / (150 * L**2), "mu/(150 L^2)"),
        (math.isclose(server, root), f"eta_g is {server:.4g}, and must be sqrt(n) = {root:.4g}"),
        bounded,
        known("the strong convexity of f", constants.strong_convexity),
    ]
    pl = known("the proximal PL constant", constants.proximal_pl)
    found = {"3.5": smooth, "3.6": [*smooth, pl], "3.7": strong}
    return [Condition(theorem, *one) for theorem, all_of in found.items() for one in all_of]


class Proposal(NamedTuple):
    """Steps for Algorithm 1: those a theorem covers, and those to try first."""

    theorem_35: Decoupled
    theorem_37: Decoupled | None
    practical: Decoupled


def propose(constants: Constants, tau: int, mean_smoothness: float) -> Proposal:
    """Steps that meet the conditions with equality, and eta_round = 1/L of the *mean* loss.

    The practical ones rest on the server's step being an inexact proximal gradient step, stable up
    to 2/L of the mean loss, with local steps short enough for the most curved client.
    """
    n, L = constants.clients, constants.smoothness
    eta_g = max(1.5, math.sqrt(n / 8))
    covered = Decoupled(1 / (10 * L * eta_g * tau), eta_g, tau)
    strongly = None
    if constants.strong_convexity > 0:
        limit = constants.strong_convexity / (150 * L**2)
        strongly = Decoupled(limit / (math.sqrt(n) * tau), math.sqrt(n), tau)
    server = max(1.0, L / (mean_smoothness * tau))
    practical = Decoupled(1 / (mean_smoothness * server * tau), server, tau)
    return Proposal(covered, strongly, practical)


def noise_coefficient(constants: Constants, algorithm: Decoupled) -> float:
    """What multiplies eta_round sigma2 / (n tau b) in the descent of Omega; the paper prints 6."""
    n, q = constants.clients, float(algorithm.eta_round) * constants.smoothness
    s = float(algorithm.eta_g)
    return 1 + 9.2 * q**2 * n / s**2 + 40 * q**2 * n / s**4 + 4 * n / s**2


PRINTED_NOISE = 6.0


def residual(constants: Constants, algorithm: Decoupled, batch: int | None, noise: float) -> float:
    """Per round, what noise and the non-smooth g can add to Omega."""
    long, n, tau = float(algorithm.eta_round), constants.clients, algorithm.tau
    variance = 0.0 if batch is None else constants.variance / batch
    ripple = noise * long * variance / (n * tau)
    bend = 56 * constants.smoothness**2 * long**3 * constants.subgradient**2
    return ripple + bend / float(algorithm.eta_g) ** 2


def descent_allowance(
    constants: Constants, algorithm: Decoupled, batch: int | None, noise: float, residual2
):
    """The most that Omega may grow in a round in which |G|^2 = residual2."""
    growth = residual(constants, algorithm, batch, noise)
    return growth - 0.3 * float(algorithm.eta_round) * np.asarray(residual2)


def bound_35(constants, algorithm: Decoupled, batch, omega1: float, rounds, noise=PRINTED_NOISE):
    """The bound of Theorem 3.5 on the mean of |G|^2 over the first `rounds` rounds."""
    long = float(algorithm.eta_round)
    stays = residual(constants, algorithm, batch, noise) / (0.3 * long)
    return omega1 / (0.3 * long * np.asarray(rounds)) + stays


def bound_36(constants, algorithm: Decoupled, batch, omega1: float, rounds, noise=PRINTED_NOISE):
    """The bound of Theorem 3.6 on Omega after `rounds` rounds."""
    shrink = constants.proximal_pl * float(algorithm.eta_round) / 3
    stays = residual(constants, algorithm, batch, noise) / shrink
    return (1 - shrink) ** np.asarray(rounds) * omega1 + stays


def bound_37(constants, algorithm: Decoupled, batch, omega1: float, rounds):
    """The bound of Theorem 3.7 on |x - x*|^2 plus the drift term, after `rounds` rounds."""
    mu, long = constants.strong_convexity, float(algorithm.eta_round)
    variance = 0.0 if batch is None else constants.variance / batch
    ripple = 30 * long * variance / (mu * constants.clients * algorithm.tau)
    bend = 21 * long * constants.subgradient**2 / (mu * float(algorithm.eta_g) ** 2)
    return (1 - mu * long / 3) ** np.asarray(rounds) * omega1 + ripple + bend
