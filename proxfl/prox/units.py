"""Penalties of coefficients whose features are measured in different units.

With x_i = c_i / unit_i, a group's norm |c| becomes |unit x|, an ellipsoid's norm, and half the
squared norm of c a curve of its own in each x_i. The prox of the ellipsoid's norm and the curves,

    minimise  w |u x'| + sum_i r_i x'_i^2 / 2 + |x' - x|^2 / (2 step),

is x'_i = t x_i / (t (1 + step r_i) + step w u_i^2), where t = |u x'| solves one equation per group.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from proxfl.points import Scalar, norm
from proxfl.prox.directional import Directional, Weight, cast
from proxfl.prox.groups import lengths_of, slots_of, sums_of, weights_of
from proxfl.pytree import non_negative, positive, pytree

# Newton's method rises to the root of a concave function and ends its rise quadratically; ten steps
# are many, even for units 1e12 apart in one group.
NEWTON = 60


@pytree
class Curve(Directional):
    """g(x) = sum_i weight_i / 2 x_i^2."""

    weight: Weight = non_negative()

    def value(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.sum(cast(self.weight, x) * x * x) / 2

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        return x / (1 + step * cast(self.weight, x))

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "Curve"]:
        return cast(self.weight, x) * x, Curve(jnp.zeros_like(x))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        return jnp.where(jnp.any(jnp.asarray(self.weight) > 0), jnp.inf, 0.0)


@pytree
class Ellipsoids(Directional):
    """g(x) = weight sum_k factors_k |unit x_k| + sum_i curve_i / 2 x_i^2, groups as in GroupL2."""

    labels: Int[Array | np.ndarray, "..."]
    factors: Float[Array | np.ndarray, " groups"] = non_negative()
    unit: Float[Array | np.ndarray, "..."] = positive()
    curve: Float[Array | np.ndarray, "..."] = non_negative()
    weight: Scalar = non_negative(default=1.0)

    def value(self, x: Float[Array, "..."]) -> Scalar:
        curves = jnp.sum(cast(self.curve, x) * x * x) / 2
        return jnp.sum(weights_of(self, x) * lengths_of(self, cast(self.unit, x) * x)) + curves

    def prox(self, x: Float[Array, "..."], step: Scalar) -> Float[Array, "..."]:
        unit, slots = cast(self.unit, x), slots_of(self)
        shrink = 1 + step * cast(self.curve, x)
        pull, scaled = step * weights_of(self, x), unit * x
        kept = lengths_of(self, x / unit) > pull
        # |unit x'| = t reads |scaled / (t shrink + flat)| = 1, and 1 / that norm is concave in t.
        flat = pull[slots] * unit * unit
        some = lengths_of(self, scaled) > 0

        def newton(carry):
            k, t, _ = carry
            below = jnp.where(some[slots], t[slots] * shrink + flat, 1.0)
            ratio = scaled / below
            length = jnp.where(some, lengths_of(self, ratio), 1.0)
            slope = sums_of(self, ratio * ratio * shrink / below)
            rise = length * length * (length - 1) / jnp.where(slope > 0, slope, 1.0)
            return k + 1, jnp.maximum(t + rise, t), jnp.any(rise > 8 * jnp.finfo(x.dtype).eps * t)

        most = lambda values: jax.ops.segment_max(
            jnp.ravel(values), jnp.ravel(slots), self.factors.size + 1
        )
        least = jnp.maximum((lengths_of(self, scaled) - most(flat)) / most(shrink), 0.0)
        begin = 0, jnp.where(some, least, 0.0), jnp.asarray(True)
        _, t, _ = jax.lax.while_loop(lambda c: (c[0] < NEWTON) & c[2], newton, begin)
        below = jnp.where(kept[slots], t[slots] * shrink + flat, 1.0)
        free = jnp.asarray(self.labels) < 0
        return jnp.where(free, x / shrink, jnp.where(kept[slots], t[slots] * x / below, 0.0))

    def derivative(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], "Ellipsoids"]:
        unit, slots = cast(self.unit, x), slots_of(self)
        lengths, weights = lengths_of(self, unit * x), weights_of(self, x)
        slopes = weights / jnp.where(lengths > 0, lengths, 1.0)
        rest = jnp.where(lengths > 0, 0.0, weights)[:-1]
        slope = unit * unit * x * slopes[slots] + cast(self.curve, x) * x
        return slope, Ellipsoids(self.labels, rest, self.unit, jnp.zeros_like(x))

    def bound(self, x: Float[Array, "..."]) -> Scalar:
        """Valid; attained if the units in each group are the same."""
        bent = jnp.any(jnp.asarray(self.curve) > 0)
        return jnp.where(bent, jnp.inf, norm(weights_of(self, x)) * jnp.max(cast(self.unit, x)))
