"""The duality gap of a model: how far its objective can be from the least one, at most.

The dual point is made of the slopes of the losses at the model, which never leave the sites. They
are given mean zero, if there is an intercept (`losses/centring.py`), and scaled until the penalty's
conjugate is finite; each site then answers with one number, its mean conjugate. How to scale the
gradient tells nearly: they are scaled a hair more in the first question, which tells whether that
was enough.

A penalty says what its conjugate is, or that it is sublinear: then v is scaled until it is a
subgradient at 0, where g* is 0. Elsewhere there is no gap: without any penalty, say, only one v has
a finite conjugate.
"""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.losses import coef_of
from proxfl.losses.centring import Centring
from proxfl.points import Point, Tree
from proxfl.train.drivers.driver import Driver, Look

HAIR = 1e-3  # of the scale, at most; less if the tolerance is, by which a gap may be larger


def duality_gap(
    driver: Driver,
    g: Regulariser,
    x: Point,
    look: Look,
    unit: np.ndarray | None = None,
    wanted: float = np.inf,
) -> float | None:
    """The objective at x - (a lower bound on the least objective); None where no bound is known.

    Infinite, and nobody is asked, if the gradient tells that it is larger than `wanted`. `g` is
    that of the coefficients alone; with a `unit` for each feature, of unit * coefficient.
    """
    loss, federation = cast(Any, driver.problem.loss), driver.federation
    if not loss.has_dual:
        return None
    in_units = lambda v: jax.device_put(v if unit is None else (v.T / unit).T)
    coef, slope = (np.asarray(coef_of(point)) for point in (x, look.gradient))
    likely, penalty = conjugate(g, in_units(-slope))
    if likely == 0:
        return None
    # What Fenchel's inequality leaves of the gap, but for the mean of the slopes.
    value = float(value_of(g, coef if unit is None else (coef.T * unit).T))
    if wanted < value + penalty + likely * np.vdot(slope, coef) < np.inf:
        return np.inf
    question: dict[str, Any] = {"x": x}
    if isinstance(x, Tree):
        told = federation.ask("imbalance", {"x": x})
        question["correction"] = correction(loss.centring, driver.mean(told, "imbalance"))
    as_scale = lambda scale: jax.device_put(np.asarray(scale, coef_of(x).dtype))
    ask = lambda scale: federation.ask("conjugate", question | {"scale": as_scale(scale)})
    first = likely * (1 - min(driver.settings.tol, HAIR)) if likely < 1 else 1.0
    told = ask(first)
    scale, penalty = conjugate(g, in_units(-np.asarray(driver.mean(told, "gradient"))))
    if scale == 0:
        return None
    told = told if first <= scale else ask(scale)
    gap = look.objective + float(driver.mean(told, "value")) + penalty
    # Below 0 by rounding, or because answers contradict one another: then it counts by its size.
    return abs(gap) if np.isfinite(gap) else None


@partial(jax.jit, static_argnums=0)
def correction(centring: Centring, mean: jax.Array) -> jax.Array:
    return centring.correction(mean)


@jax.jit
def value_of(g: Regulariser, x: Point):
    return g.value(x)


def conjugate(g: Regulariser, v: Point) -> tuple[float, float]:
    """A scale up to 1, 0 if none is known, and g* of the scaled v."""
    if g.is_sublinear:
        return float(largest_scale(g, v)), 0.0
    found = g.conjugate(v)
    return (0.0, 0.0) if found is None else (1.0, float(found))


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
