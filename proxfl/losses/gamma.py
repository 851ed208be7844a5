"""The loss of positive numbers whose spread is in proportion to their mean."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from proxfl.losses.centring import Between
from proxfl.losses.rowwise import Convex, each_alone
from proxfl.losses.targets import POSITIVE_NUMBERS


class Gamma(Convex):
    """y exp(-z) + z, for positive y of mean exp(z): the best model is that of any dispersion."""

    name = "gamma"
    formula = "y exp(-z) + z, where y is positive and of mean exp(z)"
    curvature = math.inf
    log_link = True
    target = POSITIVE_NUMBERS
    centring = Between(high=1.0)

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
