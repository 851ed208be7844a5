"""The loss of several classes."""

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from proxfl.losses.centring import Centring
from proxfl.losses.rowwise import Convex
from proxfl.losses.targets import CLASSES, probabilities


def distribution(u, y):
    """The p with slope u = p - onehot(y); rounding may not make it negative."""
    return jnp.maximum(u + jax.nn.one_hot(y, u.shape[0], dtype=u.dtype), 0.0)


class ByShare(Centring):
    """Each row gives the same small share of its p to one distribution, which makes up for all."""

    def imbalance(self, u, y):
        return jnp.stack([distribution(u, y), u])

    def correction(self, mean):
        p, u = mean
        share = jnp.max(jnp.where(p > 0, u / p, 0.0), initial=0.0)
        return jnp.stack([jnp.full_like(p, share), share * p - u])

    def corrected(self, u, y, by):
        share, given = by
        return u - share * distribution(u, y) + given


class Softmax(Convex):
    """-log softmax(z)[y], with one score per class and labels 0, 1, ..."""

    name = "softmax"
    formula = "log(sum_k exp(z_k)) - z_y, where z has one score per class"
    curvature = 1 / 2
    target = CLASSES
    likelihood = "exact"
    centring = ByShare()
    only_differences = True

    def value(self, z, y):
        return jax.nn.logsumexp(z) - z[y]

    def slope(self, z, y):
        return jax.nn.softmax(z) - jax.nn.one_hot(y, z.shape[0], dtype=z.dtype)

    def second(self, z, y):
        p = jax.nn.softmax(z)
        return jnp.diag(p) - jnp.outer(p, p)

    def conjugate(self, u, y):
        p = distribution(u, y)
        return jnp.sum(xlogy(p, p))

    @staticmethod
    def mean(z):
        return probabilities(z)
