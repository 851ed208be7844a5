"""Tweedie's loss of power 3/2 with log link: costs y of mean exp(z), some of which may be 0."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from proxfl.losses import Convex
from proxfl.losses.centring import BY_SIGN
from proxfl.losses.rowwise import each_alone
from proxfl.losses.targets import Numbers

COSTS = Numbers("costs", "drop the rows below 0", "is below 0", lambda y: np.isfinite(y) & (y >= 0))


class Tweedie(Convex):
    """2 y exp(-z/2) + 2 exp(z/2), for costs y of mean exp(z)."""

    name = "tweedie"
    formula = "2 y exp(-z/2) + 2 exp(z/2), where y is a cost of mean exp(z)"
    curvature = math.inf
    log_link = True
    target = COSTS
    centring = BY_SIGN

    def value(self, z, y):
        return jnp.sum(2 * y * jnp.exp(-z / 2) + 2 * jnp.exp(z / 2))

    def slope(self, z, y):
        return jnp.exp(z / 2) - y * jnp.exp(-z / 2)

    def second(self, z, y):
        return each_alone((jnp.exp(z / 2) + y * jnp.exp(-z / 2)) / 2)

    def conjugate(self, u, y):
        root = (u + jnp.sqrt(u * u + 4 * y)) / 2  # exp(z/2) where the slope is u
        return jnp.sum(2 * (xlogy(u, root) + u - 2 * root))

    @staticmethod
    def mean(z):
        return np.exp(z)
