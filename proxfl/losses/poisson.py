"""The loss of counts."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from proxfl.losses.centring import Between
from proxfl.losses.rowwise import Convex, each_alone
from proxfl.losses.targets import COUNTS


class Poisson(Convex):
    """exp(z) - y z, for counts y of mean exp(z); overflows where the mean itself does."""

    name = "poisson"
    formula = "exp(z) - y z, where y counts events of mean exp(z)"
    curvature = math.inf
    log_link = True
    target = COUNTS
    likelihood = "exact"
    ratio = "rate ratio"
    centring = Between(counts=True)

    def value(self, z, y):
        return jnp.sum(jnp.exp(z) - y * z)

    def slope(self, z, y):
        return jnp.exp(z) - y

    def second(self, z, y):
        return each_alone(jnp.exp(z))

    def conjugate(self, u, y):
        return jnp.sum(xlogy(u + y, u + y) - (u + y))

    @staticmethod
    def mean(z):
        return np.exp(z)
