"""What a loss is.

A loss is part of the program: a frozen, hashable object without arrays, so that equal losses share
one compilation; an `Autodiff` equals another if both hold the very same function.

Rows come with weights, and those of weight zero are padding: copies of a real row, which must not
count. In a linear model they add exactly nothing, however large their features; in a loss of rows
their losses and derivatives must be finite; a loss of a site must leave them out by itself.
"""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from proxfl.points import Point, Scalar, Tree


class Loss(abc.ABC):
    """A number for a site's rows, each of which counts with its weight, and its gradient."""

    # The largest absolute second derivative of a row's loss in its scores, infinite if not known,
    # whether the loss is known to be convex in them, and if so by how much: all second derivatives
    # are at least this.
    curvature: ClassVar[float]
    convex: ClassVar[bool]
    least_curvature: ClassVar[float] = 0.0
    # Whether a row's part may depend on other rows, and whether rows of weight zero add exactly
    # nothing, whatever they hold, because the loss is made so.
    couples_rows: ClassVar[bool]
    ignores_padding: ClassVar[bool]
    quadratic: ClassVar[bool] = False  # whether the Hessian is the same at all points

    @abc.abstractmethod
    def total(self, x: Point, batch: Any, weights: Float[Array, " rows"]) -> Scalar: ...

    def gradient(self, x: Point, batch: Any, weights: Float[Array, " rows"]) -> Point:
        return jax.grad(self.total)(x, batch, weights)

    def hessian(
        self, x: Point, batch: Any, weights: Float[Array, " rows"], features: Int[Array, " some"]
    ) -> Float[Array, "coordinates coordinates"]:
        """The second derivative of `total` in all coefficients of some features.

        For a point whose first axis is that of features. The feature after the last is the
        intercept, if there is one. A feature's outputs come one after the other, as when
        coefficients are flattened.
        """
        flat, as_point = ravel_pytree(x)
        outputs = flat.size // features_of(x)
        each = jnp.arange(outputs, dtype=features.dtype)
        some = (features[:, None] * outputs + each[None, :]).ravel()
        gradient = lambda flat: ravel_pytree(self.gradient(as_point(flat), batch, weights))[0]
        along = lambda move: gradient(flat.at[some].add(move))[some]
        return jax.jacfwd(along)(jnp.zeros(some.shape, flat.dtype))

    def complaint(self, x: Point, examples: Any) -> str | None:
        """A sentence on what is wrong with examples [clients, rows, ...]; None if nothing is."""
        return None


class RowLoss(Loss):
    """One number per row, whatever the other rows are; a site's loss is their weighted sum."""

    couples_rows = False

    @abc.abstractmethod
    def __call__(self, x: Point, batch: Any) -> Float[Array, " rows"]: ...

    def total(self, x, batch, weights):
        return weights @ self(x, batch)


@dataclasses.dataclass(frozen=True)
class Autodiff(RowLoss):
    """Any function from parameters (of a `Tree`, the pytree inside) and a batch to row losses."""

    fn: Callable[[Any, Any], Float[Array, " rows"]]
    curvature = math.inf
    convex = False
    ignores_padding = False  # it may couple rows against its word

    def __call__(self, x, batch):
        return self.fn(params_of(x), batch)


@dataclasses.dataclass(frozen=True)
class SiteLoss(Loss):
    """A function of parameters, batch and weights that may couple a site's rows, such as Cox's.

    The weights sum to one. Rows of weight zero are padding, which the function must leave out of
    every sum and comparison between rows.
    """

    fn: Callable[[Any, Any, Float[Array, " rows"]], Scalar]
    curvature = math.inf
    convex = False
    couples_rows = True
    ignores_padding = False  # it is told which rows are, and may not heed it

    def total(self, x, batch, weights):
        return self.fn(params_of(x), batch, weights)


def as_loss(loss: Any) -> Loss:
    """A loss as it is; any other function is one of rows."""
    return loss if isinstance(loss, Loss) else Autodiff(loss)


def features_of(x: Point) -> int:
    """The rows of a linear model's coefficients, and its intercept as one more."""
    leaves = jax.tree.leaves(x)
    return leaves[0].shape[0] + len(leaves) - 1


def params_of(x: Point) -> Any:
    return x.params if isinstance(x, Tree) else x


def padded(*arrays: Any) -> Any:
    """The same with padding: sites of about the same size then share their programs.

    The last of the arrays has the weights.
    """
    rows = len(arrays[-1])
    more = max(64, 1 << (rows - 1).bit_length()) - rows
    copies = jax.tree.map(
        lambda a: np.pad(a, [(0, more)] + [(0, 0)] * (np.ndim(a) - 1), mode="edge"), arrays[:-1]
    )
    return (*copies, np.pad(arrays[-1], (0, more)))
