"""A data set of a league with the units its steps are measured in."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.engine.measure import Nonzeros, optimality
from proxfl.engine.smoothness import curvature_bound, mean_curvature_bound
from proxfl.points import as_point, dtype, size
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.research.league.entrants import Unit
from proxfl.research.shipped import Shipped


class Draw(NamedTuple):
    """A problem with the smoothness its steps are measured by."""

    problem: Problem
    shards: Shard
    L: float
    L_max: float
    observe: dict[str, Any]
    cohort: int | None = None
    most_rounds: int | None = None

    def unit(self, tau: int) -> Unit:
        return Unit(self.L, self.L_max, tau, size(self.problem.x0), self.cohort is not None)


def draw_of(shipped: Shipped) -> Draw:
    with precision(dtype(as_point(shipped.problem.x0))):
        problem = jax.tree.map(jnp.asarray, shipped.problem)
        key, full = jax.random.key(0), Problem(problem.g, problem.x0, problem.loss)
        L = float(mean_curvature_bound(full, shipped.shards, problem.x0, key))
        bound = lambda shard: curvature_bound(full, shard, problem.x0, key)
        L_max = float(np.max(jax.lax.map(bound, shipped.shards)))
        observe = {
            "optimality": optimality(problem, shipped.shards, 1 / L),
            "nonzeros": Nonzeros(),
        }
        return Draw(problem, shipped.shards, L, L_max, observe, *shipped[2:])
