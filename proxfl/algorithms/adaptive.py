"""Proximal gradient whose server learns the step (Latafat, Themelis, Stella, Patrinos 2024).

    x <- prox(x - h v, h),    v the mean gradient at x,

where h follows the curvature the last two models have shown, with no search and no further message:

    h <- h min(sqrt(1 + h / h_before), 1 / (2 sqrt([h^2 |dv|^2 - h <dv, dx>]_+ / |dx|^2))).

*Theory:* for convex losses it converges from any first step, and needs no bound on the curvature.
One full gradient per client and round; a step learnt from drifting clients would be that of no
function, so no local steps.
"""

from typing import NamedTuple

import jax.numpy as jnp

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, dot, dtype, zeros_like
from proxfl.pytree import positive, pytree


class Server(NamedTuple):
    x: Point
    step: Scalar  # which led to x
    step_before: Scalar
    x_before: Point
    grad_before: Point  # the mean gradient there


@pytree
class Adaptive(Algorithm[Server, None, Point, Point]):
    """`step` is the first one; better too short than too long."""

    needs_everyone = True

    step: Scalar = positive()

    def init(self, g, x0):
        step = jnp.asarray(self.step, dtype(x0))
        return Server(x0, step, step, x0, zeros_like(x0)), None

    def broadcast(self, g, server):
        return server.x

    def client(self, f: Objective, g: Regulariser, state: None, down: Point, key):
        return Reply(None, f.full_grad(down))

    def server(self, g, server: Server, received: Received):
        grad = received.mean
        step = next_step(server, grad)
        x = g.prox(server.x - step * grad, step)
        return Server(x, step, server.step, server.x, grad)

    def output(self, g, server):
        return server.x


def next_step(server: Server, grad: Point) -> Scalar:
    """The step from x, once the gradient there is known; the same again where x did not move."""
    h, dx, dv = server.step, server.x - server.x_before, grad - server.grad_before
    moved = dot(dx, dx) > 0
    length = jnp.where(moved, dot(dx, dx), 1)
    excess = (h**2 * dot(dv, dv) - h * dot(dv, dx)) / length
    growth = jnp.sqrt(1 + h / server.step_before)
    limit = 0.5 / jnp.sqrt(jnp.where(excess > 0, excess, 1))
    factor = jnp.where(excess > 0, jnp.minimum(growth, limit), growth)
    return jnp.where(moved, h * factor, h)
