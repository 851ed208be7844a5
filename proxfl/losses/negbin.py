"""The loss of counts that spread more than Poisson's."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlog1py, xlogy

from proxfl.losses.centring import Between
from proxfl.losses.linear import setting
from proxfl.losses.rowwise import Convex, each_alone
from proxfl.losses.targets import COUNTS
from proxfl.options.kinds import POSITIVE_NUMBER


class NegativeBinomial(Convex):
    """Counts y of mean m = exp(z) and variance m + dispersion m^2; the dispersion is given."""

    dispersion: float = setting(
        POSITIVE_NUMBER,
        "the part of the variance of counts that is this times the squared mean",
        default=1.0,
    )

    name = "negbin"
    formula = (
        "(y + 1/{dispersion:g}) log(1 + {dispersion:g} exp(z)) - y z, where y counts events of "
        "mean m = exp(z) and variance m + {dispersion:g} m^2"
    )
    curvature = math.inf
    log_link = True
    target = COUNTS

    @property
    def centring(self):  # type: ignore[override]
        return Between(high=1 / self.dispersion, counts=True)

    def value(self, z, y):
        return jnp.sum((y + 1 / self.dispersion) * jax.nn.softplus(self.shifted(z)) - y * z)

    def slope(self, z, y):
        return (y + 1 / self.dispersion) * jax.nn.sigmoid(self.shifted(z)) - y

    def second(self, z, y):
        z = self.shifted(z)
        both = jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)
        return each_alone((y + 1 / self.dispersion) * both)

    def conjugate(self, u, y):
        most = y + 1 / self.dispersion
        q = (u + y) / most
        entropy = xlogy(q, q) + xlog1py(1 - q, -q)
        return jnp.sum(most * (entropy - q * math.log(self.dispersion)))

    def shifted(self, z):
        return z + math.log(self.dispersion)

    @staticmethod
    def mean(z):
        return np.exp(z)
