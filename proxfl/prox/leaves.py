"""Regularisers on the leaves of a Tree, each leaf by itself.

A leaf is known by its path, "layer/kernel", and chosen by a pattern in shell style: "*" is every
leaf, "*/kernel" every kernel. Leaves that no pattern chooses are left free.
"""

from fnmatch import fnmatchcase
from functools import reduce

import jax
import jax.numpy as jnp

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar, leaf_names
from proxfl.prox.norms import Zero
from proxfl.pytree import pytree, static


def assign(
    parts: tuple[Regulariser, ...], patterns: tuple[str, ...], x: Point
) -> list[Regulariser]:
    """The regulariser of each leaf, in order: that of the first pattern which fits its path."""
    names = leaf_names(x)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no leaf is named {pattern!r}; the leaves are {', '.join(names)}.")
    pairs = list(zip(patterns, parts, strict=True))
    return [next((g for p, g in pairs if fnmatchcase(name, p)), Zero()) for name in names]


@pytree
class SumOverLeaves(Regulariser):
    """g(x) = sum over leaves of the part whose pattern fits, the first one if several do."""

    parts: tuple[Regulariser, ...]
    names: tuple[str, ...] = static()

    @classmethod
    def of(cls, parts: dict[str, Regulariser]) -> "SumOverLeaves":
        """From pattern to part, in the order of the dict, which JAX itself would not keep."""
        return cls(tuple(parts.values()), tuple(parts))

    def value(self, x: Point) -> Scalar:
        return sum(g.value(a) for g, a in zip(self._of(x), jax.tree.leaves(x), strict=True))

    def prox(self, x: Point, step: Scalar) -> Point:
        leaves, structure = jax.tree.flatten(x)
        pairs = zip(self._of(x), leaves, strict=True)
        return jax.tree.unflatten(structure, [g.prox(a, step) for g, a in pairs])

    def distance(self, x: Point, grad: Point) -> Scalar:
        leaves, grads = jax.tree.leaves(x), jax.tree.leaves(grad)
        triples = zip(self._of(x), leaves, grads, strict=True)
        return jnp.linalg.norm(jnp.stack([g.distance(a, b) for g, a, b in triples]))

    def bound(self, x: Point) -> Scalar:
        pairs = zip(self._of(x), jax.tree.leaves(x), strict=True)
        return jnp.sqrt(sum(jnp.square(g.bound(a)) for g, a in pairs))

    @property
    def step_limit(self) -> Scalar:
        return reduce(jnp.minimum, [g.step_limit for g in self.parts], jnp.inf)

    def _of(self, x: Point) -> list[Regulariser]:
        return assign(self.parts, self.names, x)


@pytree
class OnLeaves(Regulariser):
    """The same g on every leaf that one of the patterns fits; by default, on all."""

    g: Regulariser
    names: tuple[str, ...] = static(default=("*",))

    def value(self, x: Point) -> Scalar:
        return self._sum().value(x)

    def prox(self, x: Point, step: Scalar) -> Point:
        return self._sum().prox(x, step)

    def distance(self, x: Point, grad: Point) -> Scalar:
        return self._sum().distance(x, grad)

    def bound(self, x: Point) -> Scalar:
        return self._sum().bound(x)

    @property
    def step_limit(self) -> Scalar:
        return self.g.step_limit

    def _sum(self) -> SumOverLeaves:
        return SumOverLeaves((self.g,) * len(self.names), self.names)
