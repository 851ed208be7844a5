"""Sums of regularisers whose prox is one prox after the other.

On the line, a constraint clips the free minimiser: so l1 comes before any interval. In general
prox of f + h is (prox of h) after (prox of f) if the second step keeps the subgradients of f,
that is, df(u) lies in df(prox_h(u)) for every u. In this order,

    l1 or x >= 0, then groups     f is homogeneous, and the second step only scales each group;
    variation, then l1 or box     one monotone map for all entries keeps or closes every jump.

Directional derivatives fall into the same pairs, so the distance follows in the same way.
Where coefficients have units of their own, a curve takes the place of half the squared norm, and
ellipsoids, which can hold such a curve, that of groups.
"""

from dataclasses import replace
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar, norm
from proxfl.prox.directional import Directional, shortest
from proxfl.prox.groups import GroupL2
from proxfl.prox.norms import L1, SquaredL2, Zero
from proxfl.prox.sets import Box, LInfBall, NonNegative, Simplex
from proxfl.prox.units import Curve, Ellipsoids
from proxfl.prox.variation import TotalVariation
from proxfl.prox.wrappers import Ridge
from proxfl.pytree import pytree

INTERVALS = (Box, LInfBall, NonNegative)
ORDER = (TotalVariation, L1, Curve, *INTERVALS, GroupL2, Ellipsoids)
COMPOSES = {
    (L1, Curve),
    *((slope, interval) for slope in (L1, Curve) for interval in INTERVALS),
    *((cone, groups) for cone in (L1, NonNegative) for groups in (GroupL2, Ellipsoids)),
    *((TotalVariation, entrywise) for entrywise in (L1, *INTERVALS)),
}


class NoJointProx(ValueError):
    """The sum has no prox that is one after the other."""


@pytree
class Then(Directional):
    """first(x) + second(x), for pairs that compose: the prox of the first, then of the second."""

    first: Directional
    second: Directional

    def value(self, x: Point) -> Scalar:
        return self.first.value(x) + self.second.value(x)

    def prox(self, x: Point, step: Scalar) -> Point:
        return self.second.prox(self.first.prox(x, step), step)

    def derivative(self, x: Point) -> tuple[Point, "Then"]:
        (slope, first), (other, second) = self.first.derivative(x), self.second.derivative(x)
        return slope + other, Then(first, second)

    def distance(self, x: Point, grad: Point) -> Scalar:
        length = norm(shortest(self, x, grad))
        return jnp.where(jnp.isinf(self.value(x)), jnp.inf, length)

    def bound(self, x: Point) -> Scalar:
        """Valid, by the triangle inequality, but not always attained."""
        return self.first.bound(x) + self.second.bound(x)

    @property
    def is_sublinear(self) -> bool:
        return self.first.is_sublinear and self.second.is_sublinear


def together(*parts: Regulariser) -> Regulariser:
    """The sum of the parts, if its prox is known; the order in which they come does not matter."""
    terms = [term for part in parts for term in terms_of(part)]
    ridge = [term.weight for term in terms if isinstance(term, SquaredL2)]
    rest = joined([term for term in terms if not isinstance(term, SquaredL2 | Zero)])
    if len(rest) > 1:
        rest = [compose(rest)]
    g = rest[0] if rest else Zero()
    return Ridge(g, sum(ridge)) if ridge else g


def terms_of(g: Regulariser) -> list[Regulariser]:
    """What a sum made here was made of."""
    if isinstance(g, Ridge):
        return [*terms_of(g.g), SquaredL2(g.weight)]
    return [*terms_of(g.first), *terms_of(g.second)] if isinstance(g, Then) else [g]


def joined(parts: list[Regulariser]) -> list[Regulariser]:
    """The same sum, where a part that another can hold is in it."""
    for part, other in permutations(parts, 2):
        held = join(part, other)
        if held is not None:
            return joined([held, *(p for p in parts if p is not part and p is not other)])
    return parts


def join(part: Regulariser, other: Regulariser) -> Regulariser | None:
    """One regulariser for both, if the other can hold the part."""
    if isinstance(part, NonNegative) and isinstance(other, Box):
        if np.any(np.asarray(other.hi) < 0):
            raise ValueError("no coefficient is in the box and not negative; drop one of the two.")
        return Box(np.maximum(other.lo, 0.0), other.hi)
    if isinstance(part, NonNegative) and isinstance(other, Simplex):
        return other
    for kind in (L1, Curve):
        if isinstance(part, kind) and isinstance(other, kind):
            return kind(part.weight + other.weight)
    if isinstance(part, Curve) and isinstance(other, Ellipsoids):
        return replace(other, curve=other.curve + part.weight)
    return None


def compose(parts: list[Regulariser]) -> Regulariser:
    known = [part for kind in ORDER for part in parts if isinstance(part, kind)]
    if len(known) < len(parts):
        part = next(part for part in parts if not isinstance(part, ORDER))
        raise NoJointProx(
            f"{type(part).__name__} composes with nothing but SquaredL2; drop the rest."
        )
    g = known[0]
    for i, part in enumerate(known[1:], start=1):
        for earlier in known[:i]:
            check(earlier, part)
        g = Then(g, part)
    return g


def check(first: Regulariser, second: Regulariser) -> None:
    pair = f"{type(first).__name__} and {type(second).__name__}"
    if (type(first), type(second)) not in COMPOSES:
        raise NoJointProx(f"{pair} have no known joint prox; keep one of them.")
    if isinstance(first, TotalVariation) and not is_uniform(second):
        raise NoJointProx(f"{pair} compose only when the second treats all entries alike.")


def is_uniform(g: Regulariser) -> bool:
    return all(jnp.ndim(leaf) == 0 for leaf in jax.tree.leaves(g))
