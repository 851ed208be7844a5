"""The step of a proximal Newton method: the least point of a penalised quadratic model.

    minimise over u   <gradient, u - x> + <u - x, H (u - x)> / 2 + g(u)

All that is known of g is its prox, so u is a fixed point of T(u) = prox(u - slope(u) / top), with
`top` the largest curvature. The fixed point is found by a semismooth Newton method, in which the
derivative of the prox says which coordinates are free; it ends after a few linear systems. Where a
step of it does not halve the residual, or goes uphill, accelerated proximal gradient steps with
restarts go on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from proxfl.core import Regulariser
from proxfl.points import Point, Scalar

MOST = 60  # Newton steps or runs of gradient steps
FIRST_RUN = 32  # gradient steps in the first run, twice as many in each that follows
LONGEST_RUN = 4096
FLAT = 1e-13  # curvature, relative to the largest, that is rounding
BENT = 1e-11  # the least that flat directions are given

Vector = Float[Array, " coordinates"]
Matrix = Float[Array, "coordinates coordinates"]


class Bent(NamedTuple):
    """A Hessian whose model is convex and bounded below, and its largest curvature."""

    hessian: Matrix
    top: Scalar


def bend(hessian: Matrix, gradient: Vector, distance: Scalar, reach: Scalar) -> Bent:
    """Curve the flat directions, just so much that the way down along them is `reach` at most.

    Nothing pulls harder than `distance`, that of -gradient to the penalty's subdifferential: what
    the penalty holds in place has a slope, however near the optimum is, and must not bend the way
    of what is free.
    """
    values, vectors = jnp.linalg.eigh(hessian)
    top = jnp.maximum(values[-1], 0.0)
    flat = values <= FLAT * top
    down = jnp.where(flat, vectors.T @ gradient, 0.0)
    pull = jnp.minimum(jnp.linalg.norm(down), distance)
    least = jnp.maximum(pull / reach, BENT * top)
    least = jnp.where(least > 0, least, 1.0)  # no slope and no curvature: any will do
    lifted = jnp.where(flat, least - values, 0.0)
    return Bent(hessian + (vectors * lifted[None, :]) @ vectors.T, jnp.maximum(top, least))


def minimise(
    g: Regulariser,
    x: Point,
    gradient: Point,
    bent: Bent,
    part: Scalar,
    jacobian: Callable[..., Any] = jax.jacfwd,
) -> tuple[Point, Scalar]:
    """The least point of the model, and the length of its gradient map there.

    Ends with that length below so large a part of what it was, or where rounding ends it. The
    `jacobian` is that of the prox, for which `diagonal` is enough where g is a sum over
    coordinates.
    """
    start, as_point = ravel_pytree(x)
    first = ravel_pytree(gradient)[0]
    H, step, eps = bent.hessian, 1 / bent.top, jnp.finfo(start.dtype).eps
    slope = lambda u: first + H @ (u - start)
    prox = lambda v: ravel_pytree(g.prox(as_point(v), step))[0]
    forward = lambda u: prox(u - step * slope(u))
    model = lambda u: (first + slope(u)) @ (u - start) / 2 + g.value(as_point(u))
    residual = lambda u: jnp.linalg.norm(way(u)) / step

    def way(u: Vector) -> Vector:
        """From u to `forward`. What g leaves alone is not rounded by the size of u: beside features
        in larger units a gradient step is far shorter than that."""
        down = step * slope(u)
        return prox(u - down) - (u - down) - down

    def newton(u: Vector) -> tuple[Vector, Scalar]:
        free = jacobian(prox)(u - step * slope(u))
        of = lambda matrix: free[:, None] * matrix if free.ndim == 1 else free @ matrix
        system = jnp.eye(len(u)) - of(jnp.eye(len(u))) + step * of(H)
        move = jnp.linalg.solve(system, way(u))
        lengths = 0.5 ** jnp.arange(6, dtype=u.dtype)
        tries = jax.vmap(lambda length: forward(u + length * move))(lengths)
        left = jax.vmap(lambda after: jnp.where(is_level(u, after), residual(after), jnp.inf))(
            tries
        )
        best = jnp.argmin(not_a_number_last(left))
        return tries[best], not_a_number_last(left[best])

    def is_level(u: Vector, after: Vector):
        now, parts = model(u), jnp.abs(first @ (u - start)) + g.value(as_point(u))
        return model(after) <= now + 1e2 * eps * (jnp.abs(now) + parts)

    def descend(u: Vector, times: Any) -> Vector:
        return jax.lax.fori_loop(0, times, accelerated(forward), (u, u, jnp.ones((), u.dtype)))[0]

    def size(u: Vector) -> Vector:
        """By which u is rounded: of a prox that mixes coordinates each by the largest of them."""
        return jnp.abs(u) if jacobian is diagonal else jnp.full_like(u, jnp.abs(u).max(initial=0.0))

    def go_on(carry):
        u, left, _, turn, moved = carry
        rounding = 8 * eps * (jnp.linalg.norm(first) + bent.top * jnp.linalg.norm(u - start))
        # A slope is no better known than the rounding of u itself allows, nor is what g changes.
        v = u - step * slope(u)
        changed = jnp.where(prox(v) == v, 0.0, 8 * eps * size(u))
        known = step * 2 * eps * (jnp.abs(H) @ jnp.abs(u)) + changed
        coarse = jnp.any(jnp.abs(way(u)) > known)
        return (turn < MOST) & moved & coarse & (left > jnp.maximum(part * first_left, rounding))

    def improve(carry):
        u, left, run, turn, _ = carry
        leap, over = newton(u)
        leapt = over <= 0.5 * left
        after = jax.lax.cond(leapt, lambda: leap, lambda: descend(u, run))
        run = jnp.where(leapt, run, jnp.minimum(2 * run, LONGEST_RUN))
        # A run that gives back its point, to its rounding, would do so again.
        moved = leapt | jnp.any(jnp.abs(after - u) > eps * size(u))
        return after, jnp.where(leapt, over, residual(after)), run, turn + 1, moved

    first_left = residual(start)
    begin = (start, first_left, jnp.asarray(FIRST_RUN), jnp.asarray(0), jnp.asarray(True))
    u, left, *_ = jax.lax.while_loop(go_on, improve, begin)
    return as_point(u), left


def diagonal(f: Any) -> Any:
    """The Jacobian's diagonal, of a function that acts on each coordinate by itself."""
    return lambda v: jax.jvp(f, (v,), (jnp.ones_like(v),))[1]


def accelerated(forward: Any) -> Any:
    """A step of Nesterov's, started afresh where it goes uphill (O'Donoghue, Candes 2015)."""

    def step(_, carry):
        u, ahead, t = carry
        after = forward(ahead)
        uphill = jnp.vdot(ahead - after, after - u) > 0
        longer = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * t * t)) / 2)
        ahead = after + jnp.where(uphill, 0.0, (t - 1) / longer) * (after - u)
        return after, ahead, longer

    return step


def not_a_number_last(values: Any) -> Any:
    return jnp.where(jnp.isnan(values), jnp.inf, values)
