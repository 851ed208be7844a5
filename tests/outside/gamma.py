"""The gamma loss with log link: positive numbers y of mean exp(z)."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from proxfl.losses import Convex
from proxfl.losses.centring import BY_SIGN
from proxfl.losses.linear import each_alone
from proxfl.losses.targets import Numbers

POSITIVE = Numbers(
    "positive", "drop the rows that are not", "is not positive", lambda y: np.isfinite(y) & (y > 0)
)


class Gamma(Convex):
    """y exp(-z) + z, for positive y of mean exp(z)."""

    name = "gamma"
    formula = "y exp(-z) + z, where y is positive and of mean exp(z)"
    curvature = math.inf
    target = POSITIVE
    centring = BY_SIGN

    def value(self, z, y):
        return jnp.sum(y * jnp.exp(-z) + z)

    def slope(self, z, y):
        return 1 - y * jnp.exp(-z)

    def second(self, z, y):
        return each_alone(y * jnp.exp(-z))

    def conjugate(self, u, y):
        return jnp.sum(xlogy(1 - u, (1 - u) / y) - (1 - u))

    @staticmethod
    def mean(z):
        return np.exp(z)
