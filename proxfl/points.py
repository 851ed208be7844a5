"""Points: what an algorithm moves.

A point is an array of any shape, or a `Tree` of arrays that adds, subtracts and scales like a
vector, so that one line, `x - eta * grad`, serves a lasso vector, a matrix and a network.
"""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from proxfl.pytree import pytree

# `Any` to the type checker: a union of Array and Tree has no operators of its own.
Point = Any
Scalar = Float[Array, ""] | float | int


@pytree
class Tree:
    """A pytree of arrays that behaves as one vector."""

    params: Any

    # NumPy scalars must leave `scalar * tree` to this class instead of building object arrays.
    __array_ufunc__ = None

    def __add__(self, other: "Tree") -> "Tree":
        return Tree(jax.tree.map(operator.add, self.params, other.params))

    def __sub__(self, other: "Tree") -> "Tree":
        return Tree(jax.tree.map(operator.sub, self.params, other.params))

    def __neg__(self) -> "Tree":
        return Tree(jax.tree.map(operator.neg, self.params))

    def __mul__(self, scale: Scalar) -> "Tree":
        return Tree(jax.tree.map(lambda a: a * scale, self.params))

    def __rmul__(self, scale: Scalar) -> "Tree":
        return self * scale

    def __truediv__(self, scale: Scalar) -> "Tree":
        return Tree(jax.tree.map(lambda a: a / scale, self.params))


def as_point(x: Any) -> Point:
    """Arrays and Trees as they are; any other pytree of arrays becomes a Tree."""
    is_array = hasattr(x, "dtype") and hasattr(x, "shape")
    return x if is_array or isinstance(x, Tree) else Tree(x)


def leaf_names(x: Point) -> list[str]:
    """The path of each leaf, such as "layer/kernel"; empty for an array by itself."""
    paths = jax.tree_util.tree_leaves_with_path(x.params if isinstance(x, Tree) else x)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]


def zeros_like(x: Point) -> Point:
    return jax.tree.map(jnp.zeros_like, x)


def dot(x: Point, y: Point) -> Scalar:
    return sum(jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum(a * b), x, y)))


def norm(x: Point) -> Scalar:
    return jnp.sqrt(dot(x, x))


def size(x: Point) -> int:
    """The number of coordinates."""
    return sum(leaf.size for leaf in jax.tree.leaves(x))


def dtype(x: Point) -> Any:
    """The floating type the whole point is held in, whatever JAX's settings are."""
    try:
        return np.result_type(*(leaf.dtype for leaf in jax.tree.leaves(x)))
    except TypeError:
        held = sorted({type(leaf).__name__ for leaf in jax.tree.leaves(x)})
        raise ValueError(
            f"A point needs arrays of NumPy or JAX, got {' and '.join(held)}; of a PyTorch module "
            "take px.torch.parameters(module)."
        ) from None
