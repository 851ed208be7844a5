"""The shortest subgradient, through the directional derivative.

The subdifferential of g at x is that of g'(x; .) at 0, and the prox of a sublinear function takes
away the projection on that set: what is left of -grad is the shortest element of -grad - dg(x).
"""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar, dtype, norm

# One for all coordinates, or one for each.
Weight = Float[Array | np.ndarray, "..."] | float | int


def cast(held: Point, x: Point) -> Point:
    """What a regulariser holds, in the floating type of x: precision belongs to the run."""
    return jax.tree.map(lambda a: jnp.asarray(a, dtype(x)), held)


class Directional(Regulariser):
    """A g whose directional derivative is a linear term plus a regulariser."""

    @abc.abstractmethod
    def derivative(self, x: Point) -> tuple[Point, "Directional"]:
        """The slope and the rest of `g'(x; d) = <slope, d> + rest(d)`."""

    def distance(self, x: Point, grad: Point) -> Scalar:
        return norm(shortest(self, x, grad))


def shortest(g: Directional, x: Point, grad: Point) -> Point:
    """The shortest element of -grad - dg(x); x must lie in the domain of g."""
    slope, rest = g.derivative(x)
    return rest.prox(-grad - slope, 1.0)
