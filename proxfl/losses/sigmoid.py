"""The sigmoid loss."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.losses.rowwise import Rowwise
from proxfl.losses.targets import TWO_CLASSES


class SigmoidLoss(Rowwise):
    """1 / (1 + exp(y z)), labels -1 and +1: a smooth count of mistakes, bounded and non-convex."""

    name = "sigmoid"
    formula = "1 / (1 + exp(y z)), where y is -1 or +1, +1 for the larger label"
    curvature = 1 / (6 * math.sqrt(3))  # of s(1 - s)(1 - 2s), at s = 1/2 +- 1/sqrt(12)
    convex = False
    target = TWO_CLASSES

    def value(self, z, y):
        return jnp.sum(jax.nn.sigmoid(-(y * z)))

    def slope(self, z, y):
        return -(y * jax.nn.sigmoid(y * z) * jax.nn.sigmoid(-(y * z)))

    @staticmethod
    def mean(z):
        return np.stack([z <= 0, z > 0], axis=1).astype(z.dtype)  # it takes sides, no chances
