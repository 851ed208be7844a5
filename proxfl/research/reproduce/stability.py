"""The longest step of a round that is stable: predicted by the linearised round, and measured."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.algorithms import Accelerated, Decoupled
from proxfl.algorithms.decoupled import Memory
from proxfl.algorithms.exactness import longest_step
from proxfl.engine.blocks import mean_gradient
from proxfl.engine.round import Run, simulated_round, start
from proxfl.engine.simulate import simulate
from proxfl.engine.smoothness import mean_curvature_bound
from proxfl.points import Point, Scalar, norm
from proxfl.problem import Problem, Shard
from proxfl.research import theory
from proxfl.research.shipped import PROBLEMS
from proxfl.research.theory.constants import smoothness

MAIN = "l1-least-squares"
TAUS, SERVER = (1, 2, 5, 10, 20), (1.0, 4.0)
ROUNDS = 2000
# Steps tried, relative to the prediction: a hundredth apart next to it, coarser below.
TRIED = np.concatenate([np.linspace(0.5, 0.86, 10), np.linspace(0.88, 1.1, 23)])
AWAY = 1e-6  # how far from the solution, relative to it, runs near it start
ARRIVED = 1e-3  # of the first distance: a run from zero has come to the solution


def plan(quick: bool) -> list[tuple[str, float, int]]:
    """Problem, eta_g and tau."""
    if quick:
        return [(MAIN, 4.0, tau) for tau in (1, 5)]
    main = [(MAIN, eta_g, tau) for eta_g in SERVER for tau in TAUS]
    others = ("l1-logistic", "group-lasso", "nuclear", "simplex")
    return main + [(name, 4.0, tau) for name in others for tau in (1, 5, 10)]


def limits(name: str, eta_g: float, tau: int) -> dict[str, Any]:
    """The longest steps: proven, predicted, and of runs from near the solution and from zero."""
    shipped = PROBLEMS[name](0)
    problem, shards = shipped.problem.normalised(), shipped.shards
    solution = solve(problem, shards)
    local = theory.linearise(problem, shards, solution)
    assert local is not None
    predicted = local.longest_stable(eta_g, tau)
    L, L_f = smoothness(problem, shards, [solution])
    steps = predicted * TRIED
    near, cold = (
        first_failure(steps, came)
        for came in returns(problem, shards, solution, jnp.asarray(steps), eta_g, tau)
    )
    return {
        "problem": name,
        "eta_g": eta_g,
        "tau": tau,
        "curvature": local.curvature,
        "proven": longest_step(L.value, L_f.value, eta_g, tau),
        "predicted": predicted,
        "near": near,
        "cold": cold,
    }


def solve(problem: Problem, shards: Shard) -> Point:
    L = mean_curvature(problem, shards)
    options: Any = {"rounds": 5000, "every": 5000, "progress": False}
    solved = simulate(Accelerated(Decoupled(1 / L)), problem, shards, **options)
    return jax.tree.map(jnp.asarray, solved.model)


def mean_curvature(problem: Problem, shards: Shard) -> float:
    return float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0)))


@partial(jax.jit, static_argnames="tau")
def returns(problem: Problem, shards: Shard, solution: Point, steps, eta_g: Scalar, tau: int):
    """For every step, whether runs from near the solution, and from the start, come to it."""
    gradient = mean_gradient(problem, shards, solution)
    each = jax.vmap(lambda shard: problem.objective(shard).full_grad(solution))(shards)
    push = jax.random.normal(jax.random.key(0), solution.shape, solution.dtype)
    push = AWAY * norm(solution) * push / norm(push)

    def one(step):
        algorithm = Decoupled(step / (eta_g * tau), eta_g, tau)
        away = lambda run: norm(algorithm.output(problem.g, run.server) - solution)
        go = lambda _, run: simulated_round(algorithm, problem, shards, run)[0]
        cold = start(algorithm, problem, shards)
        starts = jnp.broadcast_to(solution, each.shape)
        near = Run(solution + push - step * gradient, Memory(starts, each), cold.round, cold.key)
        end = lambda run: away(jax.lax.fori_loop(0, ROUNDS, go, run))
        # Corrections take a round to feel the push, and the prox may swallow a part of it.
        return end(near) < away(go(0, near)), end(cold) < ARRIVED * away(cold)

    return jax.lax.map(one, steps)


def first_failure(steps: np.ndarray, came: Any) -> float:
    """The longest step up to which all came."""
    failed = np.flatnonzero(~np.asarray(came))
    if failed.size == 0:
        return float(steps[-1])
    return float(steps[failed[0] - 1]) if failed[0] else 0.0
