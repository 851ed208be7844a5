"""Convex conjugates of the losses in the score, and slopes that are feasible in the dual.

The dual of minimising mean l(z) + g(coef) over z = A coef + intercept is to maximise, over one
slope u per row,

    -mean l*(u) - g*(-A' u),    with mean u = 0 if there is an intercept,

where l*(u) = max_z u z - l(z), and mean and A' weigh rows and sites as the primal does. At a
solution the slopes are u = l'(z); anywhere else these are off by a little. Scaling them by a factor
up to 1 keeps l* finite, since each loss is bounded below, and so do two ways to make their mean 0:

    one score      the slopes of the sign that weighs more are scaled down to match the others;
    softmax        u = p - onehot(y) for a distribution p of each row; the same small share of
                   every p is given to one distribution, chosen to make up for the excess.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import xlog1py, xlogy
from jaxtyping import Array, Float

from proxfl.losses import Huber, Linear, Logistic, Poisson, Softmax, Squared

CONVEX = (Logistic, Squared, Huber, Poisson, Softmax)

Slope = Float[Array, "*outputs"]
Balance = Float[Array, "2 *outputs"]  # how to shift the mean; see `balanced`


def conjugate(loss: Linear, u: Slope, y: Any) -> Float[Array, ""]:
    """l*(u) of one row, for a slope in its domain."""
    if isinstance(loss, Logistic):
        q = -y * u
        return xlogy(q, q) + xlog1py(1 - q, -q)
    if isinstance(loss, Poisson):
        return xlogy(u + y, u + y) - (u + y)
    if isinstance(loss, Softmax):
        p = probabilities(u, y)
        return jnp.sum(xlogy(p, p))
    return u * u / 2 + u * y  # squared; and Huber, whose slopes keep to their interval


def probabilities(u: Slope, y: Any) -> Slope:
    """The distribution behind a slope of softmax; rounding may not make it negative."""
    return jnp.maximum(u + jax.nn.one_hot(y, u.shape[0], dtype=u.dtype), 0.0)


def excess(loss: Linear, u: Slope, y: Any) -> Balance:
    """What a row tells so that the mean slope can be made zero: the mean of this over all rows."""
    if isinstance(loss, Softmax):
        return jnp.stack([probabilities(u, y), u])
    return jnp.stack([jnp.maximum(u, 0.0), jnp.minimum(u, 0.0)])


def balance(loss: Linear, mean: Balance) -> Balance:
    """How to make the mean slope zero, from the mean excess."""
    if isinstance(loss, Softmax):
        p, u = mean
        share = jnp.max(jnp.where(p > 0, u / p, 0.0), initial=0.0)
        return jnp.stack([jnp.full_like(p, share), share * p - u])
    up, down = mean[0], -mean[1]
    least = jnp.minimum(up, down)
    shrink = lambda side: jnp.where(side > 0, least / jnp.where(side > 0, side, 1.0), 0.0)
    return jnp.stack([shrink(up), shrink(down)])


def unbalanced(x: Array) -> Balance:
    """What leaves all slopes as they are."""
    return jnp.zeros((2, *x.shape[1:])) if x.ndim > 1 else jnp.ones(2)


def balanced(loss: Linear, u: Slope, y: Any, by: Balance) -> Slope:
    """A row's slope after its part of the shift."""
    if isinstance(loss, Softmax):
        share, given = by
        return u - share * probabilities(u, y) + given
    return u * jnp.where(u > 0, by[0], by[1])
