"""The logistic loss."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlog1py, xlogy

from proxfl.losses.centring import BY_SIGN
from proxfl.losses.rowwise import Convex, each_alone
from proxfl.losses.targets import TWO_CLASSES, probabilities


class Logistic(Convex):
    """log(1 + exp(-y z)), labels -1 and +1."""

    name = "logistic"
    formula = "log(1 + exp(-y z)), where y is -1 or +1, +1 for the larger label"
    curvature = 1 / 4
    target = TWO_CLASSES
    likelihood = "exact"
    ratio = "odds ratio"
    centring = BY_SIGN

    def value(self, z, y):
        return jnp.sum(jax.nn.softplus(-(y * z)))

    def slope(self, z, y):
        return -(y * jax.nn.sigmoid(-(y * z)))

    def second(self, z, y):
        return each_alone(jax.nn.sigmoid(z) * jax.nn.sigmoid(-z))

    def conjugate(self, u, y):
        q = -y * u
        return jnp.sum(xlogy(q, q) + xlog1py(1 - q, -q))

    @staticmethod
    def mean(z):
        return probabilities(np.stack([np.zeros_like(z), z], axis=1))
