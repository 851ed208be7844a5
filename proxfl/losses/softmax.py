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
    """Classes with too much give the same share of it in each row; the others get what they lack.

    Nothing else is moved, however rare a class is.
    """

    def imbalance(self, u, y):
        return jnp.stack([distribution(u, y), u])

    def correction(self, mean):
        p, u = mean
        over, lacking = jnp.maximum(u, 0.0), jnp.maximum(-u, 0.0)
        portion = lambda part, whole: part / jnp.where(whole > 0, whole, 1.0)
        return jnp.stack([portion(over, p), portion(lacking, jnp.sum(over))])

    def corrected(self, u, y, by):
        share, part = by
        given = share * distribution(u, y)
        return u - given + part * jnp.sum(given)


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
