"""The Huber loss."""

import jax.numpy as jnp

from proxfl.losses.centring import Between
from proxfl.losses.linear import setting
from proxfl.losses.rowwise import Convex, each_alone
from proxfl.losses.targets import NUMBERS
from proxfl.options.kinds import POSITIVE_NUMBER


class Huber(Convex):
    """Squared error up to a residual of delta, linear beyond it."""

    delta: float = setting(
        POSITIVE_NUMBER, "the residual from which the huber loss is linear", default=1.0
    )

    name = "huber"
    formula = "(z - y)^2 / 2 up to a residual of {delta:g}, linear beyond it"
    curvature = 1.0
    kinked = True
    target = NUMBERS

    @property
    def centring(self):  # type: ignore[override]
        return Between(-self.delta, self.delta)

    def value(self, z, y):
        pull = self.slope(z, y)
        return jnp.sum(pull * (z - y - pull / 2))

    def slope(self, z, y):
        return jnp.clip(z - y, -self.delta, self.delta)

    def second(self, z, y):
        return each_alone((jnp.abs(z - y) <= self.delta).astype(z.dtype))

    def conjugate(self, u, y):
        return jnp.sum(u * u / 2 + u * y)  # that of the squared loss, for slopes up to delta

    @staticmethod
    def mean(z):
        return z
