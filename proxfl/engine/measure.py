"""Metrics: one definition for every method, evaluated at the model the method reports.

An observer is a pytree that maps a `Snapshot` of a run to one number. `simulate` calls it inside
the compiled program, so observers cost what their arithmetic costs.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from proxfl.engine.blocks import mean_gradient, mean_over_clients
from proxfl.points import Point, Scalar, dot, norm
from proxfl.problem import Problem, Shard
from proxfl.pytree import positive, pytree, static


@dataclass(frozen=True)
class Snapshot:
    """A run as an observer sees it; what several observers need is computed once."""

    problem: Problem
    shards: Shard
    x: Point
    algorithm: Any
    server: Any
    clients: Any
    info: dict[str, Scalar]
    block: int | None = None

    @cached_property
    def gradient(self) -> Point:
        return mean_gradient(self.problem, self.shards, self.x, self.block)

    @cached_property
    def loss(self) -> Scalar:
        value = lambda shard: self.problem.objective(shard).value(self.x)
        return mean_over_clients(value, self.shards, self.block)

    @cached_property
    def corrections(self) -> Point:
        """Every client's drift correction for the next round, stacked."""
        if not isinstance(self.algorithm, Corrected):
            name = type(self.algorithm).__name__
            raise TypeError(f"{name} keeps no drift correction; observe another quantity.")
        down = self.algorithm.broadcast(self.problem.g, self.server)
        return jax.vmap(lambda state: self.algorithm.correction(state, down))(self.clients)

    @cached_property
    def mean_correction(self) -> Point:
        mean = lambda c: jnp.tensordot(self.shards.weight, c, axes=1)
        return jax.tree.map(mean, self.corrections)


@runtime_checkable
class Corrected(Protocol):
    """An algorithm whose clients add a correction to their gradients."""

    @property
    def eta_round(self) -> Scalar: ...

    def broadcast(self, g: Any, server: Any) -> Any: ...

    def correction(self, state: Any, down: Any) -> Point: ...


class Observer(abc.ABC):
    @abc.abstractmethod
    def __call__(self, seen: Snapshot) -> Scalar: ...


def prox_gradient(problem: Problem, x: Point, gradient: Point, step: Scalar) -> Scalar:
    """|G_s(x)| with G_s(x) = (x - prox(x - s grad f(x), s)) / s."""
    return norm(x - problem.g.prox(x - step * gradient, step)) / step


@pytree
class ObjectiveValue(Observer):
    """F = f + g."""

    def __call__(self, seen):
        return seen.loss + seen.problem.g.value(seen.x)


@pytree
class ProxGradient(Observer):
    """The norm of the proximal gradient G_s, with one common step for every method."""

    step: Scalar = positive(default=1.0)

    def __call__(self, seen):
        return prox_gradient(seen.problem, seen.x, seen.gradient, self.step)


@pytree
class Optimality(Observer):
    """The paper's measure: the proximal gradient relative to that at the starting point."""

    reference: Scalar = positive()
    step: Scalar = positive(default=1.0)

    def __call__(self, seen):
        return prox_gradient(seen.problem, seen.x, seen.gradient, self.step) / self.reference


@pytree
class Stationarity(Observer):
    """The distance of -grad f to the subdifferential of g: zero exactly at a stationary point."""

    def __call__(self, seen):
        return seen.problem.g.distance(seen.x, seen.gradient)


@pytree
class Nonzeros(Observer):
    """How many coordinates of the model are not exactly zero."""

    def __call__(self, seen):
        return sum(jnp.count_nonzero(leaf) for leaf in jax.tree.leaves(seen.x))


@pytree
class Rank(Observer):
    """The numerical rank of a model that is a matrix."""

    def __call__(self, seen):
        return jnp.linalg.matrix_rank(seen.x)


@pytree
class ActiveGroups(Observer):
    """How many groups have a coordinate that is not zero; label -1 belongs to no group."""

    labels: Int[Array, " d"]
    groups: int = static()

    def __call__(self, seen):
        member = jax.nn.one_hot(self.labels.ravel(), self.groups, dtype=bool)
        return jnp.count_nonzero((member & (seen.x != 0).ravel()[:, None]).any(axis=0))


@pytree
class DistanceTo(Observer):
    """How far the model is from a point, relative to that point's norm."""

    point: Point

    def __call__(self, seen):
        return norm(seen.x - self.point) / norm(self.point)


@pytree
class Info(Observer):
    """A metric only the clients see, averaged over those of the last round; NaN before it."""

    name: str = static()

    def __call__(self, seen):
        return seen.info[self.name]


@pytree
class MeanCorrection(Observer):
    """The norm of the clients' weighted mean correction: zero in exact arithmetic."""

    def __call__(self, seen):
        return norm(seen.mean_correction)


@pytree
class LambdaTerm(Observer):
    """(1/(n eta_round)) |Lambda - mean Lambda|^2, the drift part of the paper's Omega.

    Lambda_i = eta tau (grad f_i(x) + c_i), and eta tau = eta_round / eta_g.
    """

    def __call__(self, seen):
        def deviation(shard, c):
            v = seen.problem.objective(shard).full_grad(seen.x) + c - centre
            return dot(v, v)

        centre = seen.gradient + seen.mean_correction
        spread = seen.shards.weight @ jax.vmap(deviation)(seen.shards, seen.corrections)
        local = seen.algorithm.eta * seen.algorithm.tau
        return local**2 * spread / seen.algorithm.eta_round


@pytree
class Omega(Observer):
    """The paper's auxiliary function: F(x) - F* plus the Lambda term."""

    optimum: Scalar

    def __call__(self, seen):
        return ObjectiveValue()(seen) - self.optimum + LambdaTerm()(seen)


@pytree
class Accuracy(Observer):
    """The share of test examples whose label `predict(x, inputs)` gets right."""

    inputs: Any
    labels: Array
    predict: Callable[[Any, Any], Array] = static()

    def __call__(self, seen):
        return jnp.mean(self.predict(seen.x, self.inputs) == self.labels)


def optimality(
    problem: Problem, shards: Shard, step: float = 1.0, block: int | None = None
) -> Optimality:
    """The paper's measure for this problem: relative to its starting point, with one step."""
    return Optimality(float(initial_residual(problem, shards, step, block)), step)


@partial(jax.jit, static_argnames="block")
def initial_residual(problem, shards, step, block) -> Scalar:
    gradient = mean_gradient(problem, shards, problem.x0, block)
    return prox_gradient(problem, problem.x0, gradient, step)
