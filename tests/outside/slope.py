"""Sorted l1 (OWL, SLOPE): the larger a coefficient, the more it counts; equal ones stay equal."""

import jax
import jax.numpy as jnp

from proxfl.core import Regulariser
from proxfl.points import norm
from proxfl.pytree import non_negative, pytree
from proxfl.train.parts import FEATURES
from proxfl.train.penalties import Penalty, Sweep, times, weight


def non_increasing(v, same):
    """The nearest non-increasing vector, within runs of entries that are the `same`.

    By the min-max formula: entry i is the least over a <= i of the largest over b >= i of the
    means of v[a..b]. That takes n^2 numbers; pools of adjacent violators would take n.
    """
    n = len(v)
    place, total = jnp.arange(n), jnp.append(jnp.zeros(1, v.dtype), jnp.cumsum(v))
    after = place[None, :] >= place[:, None]  # b >= a
    length = jnp.where(after, place[None, :] - place[:, None] + 1, 1).astype(v.dtype)
    means = jnp.where(after & same, (total[None, 1:] - total[:-1, None]) / length, -jnp.inf)
    largest = jax.lax.cummax(means, axis=1, reverse=True)
    return jnp.min(jnp.where(after & same, largest, jnp.inf), axis=0)


@pytree
class SortedL1(Regulariser):
    """weight * sum_k (p - k) / p times the k-th largest |x_i|, k from 0, of p coordinates."""

    weight: float = non_negative()

    @property
    def is_sublinear(self):
        return True

    def weights(self, x):
        return self.weight * (1 - jnp.arange(x.size, dtype=x.dtype) / x.size)

    def value(self, x):
        return self.weights(x) @ -jnp.sort(-jnp.abs(jnp.ravel(x)))

    def prox(self, x, step):
        flat = jnp.ravel(x)
        order = jnp.argsort(-jnp.abs(flat))
        sizes = jnp.abs(flat)[order] - step * self.weights(x)
        every = jnp.ones((x.size, x.size), bool)
        shrunk = jnp.maximum(non_increasing(sizes, every), 0.0)
        return jnp.reshape(jnp.sign(flat) * jnp.zeros_like(flat).at[order].set(shrunk), x.shape)

    def distance(self, x, grad):
        # Entries of one size are sorted by the directional derivative as all are by g itself.
        flat, v = jnp.ravel(x), -jnp.ravel(grad)
        along = jnp.where(flat == 0, jnp.abs(v), v * jnp.sign(flat))
        order = jnp.lexsort((-along, -jnp.abs(flat)))
        sizes = jnp.abs(flat)[order]
        same = sizes[:, None] == sizes[None, :]
        left = non_increasing(along[order] - self.weights(x), same)
        return norm(jnp.where(sizes > 0, left, jnp.maximum(left, 0.0)))

    def bound(self, x):
        return norm(self.weights(x))


OPTION = weight("slope", "absolute coefficients in order, the largest counted most")

PENALTY = Penalty(
    options=(OPTION,),
    make=lambda spec, features, outputs: SortedL1(spec.slope),
    in_units=None,
    formula=lambda spec: f"{spec.slope:g} sum_k (1 - k/p) |coef|_(k), largest first",
    words=times(OPTION),
    is_constraint=False,
    sweep=Sweep("slope weight", FEATURES, dual_norm=None),
    desparsifies=False,
    by_coefficient=False,
)
