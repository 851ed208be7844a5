"""The squared loss."""

import jax.numpy as jnp

from proxfl.losses.centring import Between
from proxfl.losses.rowwise import Convex, each_alone
from proxfl.losses.targets import NUMBERS


class Squared(Convex):
    """|z - y|^2 / 2."""

    name = "squared"
    formula = "(z - y)^2 / 2"
    curvature = 1.0
    least_curvature = 1.0
    quadratic = True
    target = NUMBERS
    likelihood = "scaled"
    centring = Between()

    def value(self, z, y):
        return jnp.sum((z - y) ** 2) / 2

    def slope(self, z, y):
        return z - y

    def second(self, z, y):
        return each_alone(jnp.ones_like(z))

    def conjugate(self, u, y):
        return jnp.sum(u * u / 2 + u * y)

    @staticmethod
    def mean(z):
        return z
