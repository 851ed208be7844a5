"""The duality gap of a model: how far its objective can be from the least one, at most.

The dual point is made of the slopes of the losses at the model, which never leave the sites. They
are balanced, if there is an intercept, and scaled until the penalty's conjugate is finite; each
site then answers with one number, its mean conjugate. See `proxfl.conjugates` for the formulas.

The conjugate of g is known
* with a ridge of weight w: at x = prox(v / w, 1 / w) of the rest it attains <v, x> - g(x);
* for norms, also with x >= 0: where prox(v, 1) = 0, v is a subgradient at 0 and g*(v) is -g(0) = 0;
  so v is scaled until it is one;
* for a bounded box and the simplex: the largest <v, x>.

Elsewhere there is no gap: without any penalty, say, only one v has a finite conjugate.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.conjugates import CONVEX, balance, unbalanced
from proxfl.core import Regulariser
from proxfl.train.federation import Federation
from proxfl.train.drivers.driver import weighted_mean
from proxfl.points import Point, Tree, dot
from proxfl.prox import (
    L1,
    Box,
    GroupL2,
    NonNegative,
    Nuclear,
    Ridge,
    Simplex,
    Then,
)


def duality_gap(
    federation: Federation,
    loss: Any,
    g: Regulariser,
    weights: np.ndarray,
    x: Point,
    objective: float,
    unit: np.ndarray | None = None,
) -> float | None:
    """objective - (a lower bound on the least objective); None where no bound is known.

    `g` is that of the coefficients alone; with a `unit` for each feature, of unit * coefficient.
    """
    if not isinstance(loss, CONVEX):
        return None
    coef = x.params.coef if isinstance(x, Tree) else x
    even = unbalanced(coef)
    if isinstance(x, Tree):
        told = federation.ask("excess", {"x": x})
        even = balance(loss, weighted_mean(federation, weights, told, "excess"))
    ask = lambda scale: federation.ask("conjugate", {"x": x, "balance": even, "scale": scale})
    whole = ask(jnp.ones((), coef.dtype))
    v = -weighted_mean(federation, weights, whole, "gradient")
    if unit is not None:
        v = jax.vmap(jnp.divide)(v, jnp.asarray(unit))
    scale, penalty = conjugate(g, v)
    if scale == 0:
        return None
    told = whole if scale == 1 else ask(jnp.asarray(scale, v.dtype))
    gap = objective + float(weighted_mean(federation, weights, told, "value")) + penalty
    return max(gap, 0.0) if np.isfinite(gap) else None  # below 0 only by rounding


def conjugate(g: Regulariser, v: Point) -> tuple[float, float]:
    """A scale up to 1, 0 if none is known, and g* of the scaled v."""
    if isinstance(g, Ridge) and g.weight > 0:
        best = g.g.prox(v / g.weight, 1 / g.weight)
        return 1.0, float(dot(v, best) - g.value(best))
    if isinstance(g, Simplex):
        return 1.0, float(g.radius * jnp.max(v))
    if isinstance(g, Box):
        ends = np.maximum(np.asarray(g.lo * v), np.asarray(g.hi * v))
        return (1.0, float(ends.sum())) if np.isfinite(ends).all() else (0.0, 0.0)
    rest = g.g if isinstance(g, Ridge) else g
    return (float(largest_scale(rest, v)), 0.0) if is_sublinear(rest) else (0.0, 0.0)


def is_sublinear(g: Regulariser) -> bool:
    """Whether g is a norm, a convex cone, or the sum of two such."""
    if isinstance(g, Then):
        return is_sublinear(g.first) and is_sublinear(g.second)
    return isinstance(g, L1 | GroupL2 | Nuclear | NonNegative)


@jax.jit
def largest_scale(g: Regulariser, v: Point):
    """The largest number up to 1 by which to scale v so that it is a subgradient of g at 0."""
    fits = lambda t: ~jnp.any(g.prox(t * v, 1.0) != 0)

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        return jnp.where(fits(middle), middle, low), jnp.where(fits(middle), high, middle)

    one = jnp.ones((), v.dtype)
    found, _ = jax.lax.fori_loop(0, 53, halve, (0 * one, one))
    return jnp.where(fits(one), one, found)
