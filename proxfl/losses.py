"""Losses: one number per example, as a function of the model.

A loss is part of the program: a frozen, hashable object without arrays, so that equal losses share
one compilation; an `Autodiff` equals another if both hold the very same function.
Rows of weight zero are padding. In a linear model they add exactly nothing to the gradient if their
features are finite, however large; for `Autodiff` their losses and derivatives must be finite too.
Padding with zeros, or with copies of a real row, is safe for both.
"""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from proxfl.points import Point, Tree
from proxfl.pytree import keep_rules, positive


class Loss(abc.ABC):
    """One number per example, and the gradient of their weighted sum."""

    @abc.abstractmethod
    def __call__(self, x: Point, batch: Any) -> Float[Array, " rows"]: ...

    @abc.abstractmethod
    def gradient(self, x: Point, batch: Any, weights: Float[Array, " rows"]) -> Point: ...


@dataclass(frozen=True)
class Autodiff(Loss):
    """Any function from parameters (of a `Tree`, the pytree inside) and a batch to row losses."""

    fn: Callable[[Any, Any], Float[Array, " rows"]]

    def __call__(self, x, batch):
        return self.fn(x.params if isinstance(x, Tree) else x, batch)

    def gradient(self, x, batch, weights):
        return jax.grad(lambda x: weights @ self(x, batch))(x)


class Coefficients(NamedTuple):
    """A linear model with an intercept, which a regulariser can then leave alone."""

    coef: Float[Array, " cols"] | Float[Array, "cols outputs"]
    intercept: Float[Array, ""] | Float[Array, " outputs"]


def scores(x: Point, A: Any) -> Float[Array, " rows *outputs"]:
    """What the linear model x predicts for each row, before any link function."""
    if isinstance(x, Tree):
        coef, intercept = x.params
        return jax.vmap(lambda z: z + intercept)(A @ coef)
    return A @ x


class Labels(NamedTuple):
    """Which labels a loss accepts, in words, and what to do with others."""

    words: str
    remedy: str
    accepts: Callable[[np.ndarray], Any]


SIGNS = Labels("-1 or +1", "map them first", lambda y: np.abs(y) == 1)
NUMBERS = Labels("finite", "drop the rows that are not", np.isfinite)
COUNTS = Labels("counts", "drop the rows below 0", lambda y: np.isfinite(y) & (y >= 0))
CLASSES = Labels("integers from 0", "number them", lambda y: y.dtype.kind in "iu" and y >= 0)


class Linear(Loss):
    """A loss of the scores z = A coef (+ intercept); a batch is (A, y).

    `value` and `slope` speak of one row, whose score is a scalar or one number per output;
    `curvature` is the largest absolute second derivative of `value` in any direction of z.
    """

    curvature: ClassVar[float]
    labels: ClassVar[Labels]

    @abc.abstractmethod
    def value(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def slope(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, "*outputs"]:
        """The derivative of `value` in z."""

    def check(self, y: np.ndarray) -> str | None:
        """A sentence on what is wrong with these labels; None if nothing is."""
        if np.all(self.labels.accepts(y)):
            return None
        name, (words, remedy, _), values = type(self).__name__, self.labels, np.unique(y)
        few = ", ".join(str(v.item()) for v in values[:5]) + (", ..." if len(values) > 5 else "")
        return f"{name} labels must be {words}, got values {{{few}}}; {remedy}."

    def __call__(self, x, batch):
        A, y = batch
        return jax.vmap(self.value)(scores(x, A), y)

    def gradient(self, x, batch, weights):
        A, y = batch
        slope = jax.vmap(self.slope)(scores(x, A), y)
        # Not just weight * slope: a slope that overflowed in an ignored row would give 0 * inf.
        pull = jax.vmap(lambda w, s: jnp.where(w == 0, 0.0, w * s))(weights, slope)
        if isinstance(x, Tree):
            return Tree(Coefficients(A.T @ pull, jnp.sum(pull, axis=0)))
        return A.T @ pull


@dataclass(frozen=True)
class Logistic(Linear):
    """log(1 + exp(-y z)), labels -1 and +1."""

    curvature = 1 / 4
    labels = SIGNS

    def value(self, z, y):
        return jnp.sum(jax.nn.softplus(-(y * z)))

    def slope(self, z, y):
        return -(y * jax.nn.sigmoid(-(y * z)))


@dataclass(frozen=True)
class SigmoidLoss(Linear):
    """1 / (1 + exp(y z)), labels -1 and +1: a smooth count of mistakes, bounded and non-convex."""

    curvature = 1 / (6 * math.sqrt(3))  # of s(1 - s)(1 - 2s), at s = 1/2 +- 1/sqrt(12)
    labels = SIGNS

    def value(self, z, y):
        return jnp.sum(jax.nn.sigmoid(-(y * z)))

    def slope(self, z, y):
        return -(y * jax.nn.sigmoid(y * z) * jax.nn.sigmoid(-(y * z)))


@dataclass(frozen=True)
class Squared(Linear):
    """|z - y|^2 / 2."""

    curvature = 1.0
    labels = NUMBERS

    def value(self, z, y):
        return jnp.sum((z - y) ** 2) / 2

    def slope(self, z, y):
        return z - y


@dataclass(frozen=True)
class Huber(Linear):
    """Squared error up to a residual of delta, linear beyond it."""

    delta: float = positive(default=1.0)
    __post_init__ = keep_rules
    curvature = 1.0
    labels = NUMBERS

    def value(self, z, y):
        pull = self.slope(z, y)
        return jnp.sum(pull * (z - y - pull / 2))

    def slope(self, z, y):
        return jnp.clip(z - y, -self.delta, self.delta)


@dataclass(frozen=True)
class Poisson(Linear):
    """exp(z) - y z, for counts y of mean exp(z); overflows where the mean itself does."""

    curvature = math.inf
    labels = COUNTS

    def value(self, z, y):
        return jnp.sum(jnp.exp(z) - y * z)

    def slope(self, z, y):
        return jnp.exp(z) - y


@dataclass(frozen=True)
class Softmax(Linear):
    """-log softmax(z)[y], with one score per class and labels 0, 1, ..."""

    curvature = 1 / 2
    labels = CLASSES

    def value(self, z, y):
        return jax.nn.logsumexp(z) - z[y]

    def slope(self, z, y):
        return jax.nn.softmax(z) - jax.nn.one_hot(y, z.shape[0], dtype=z.dtype)
