"""Algorithm 1 when only some clients answer: the server remembers the mean gradient.

Each client keeps v_i, its mean local gradient when last heard; the server keeps V, their weighted
mean over *all* clients. The correction is c_i = V - v_i, the uplink the change of v_i, and

    direction = V + mean over the cohort of (v_i new - v_i),    V <- V + share * that mean.

With everyone present this is Algorithm 1, iterate for iterate. Its fixed points do not depend on
who answers. It pays with a second vector down, V, for clients that missed a round.
"""

from typing import NamedTuple

import jax.numpy as jnp

from proxfl.algorithms.decoupled import corrected_steps
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import count, positive, pytree


class Global(NamedTuple):
    """The pre-proximal model, and the mean over all clients of their last mean gradients."""

    x: Point
    mean_grad: Point


@pytree
class DecoupledPartial(Algorithm[Global, Point, Global, Point]):
    """Algorithm 1 with server memory, for partial participation and lost replies."""

    needs_everyone = False

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)

    @property
    def eta_round(self):
        return self.eta_g * self.eta * self.tau

    @property
    def longest_prox(self):
        return jnp.maximum(self.eta_round, self.eta * self.tau)

    def init(self, g, x0):
        return Global(x0, zeros_like(x0)), zeros_like(x0)

    def broadcast(self, g, server):
        return server

    def correction(self, state: Point, down: Global) -> Point:
        return down.mean_grad - state

    def client(self, f: Objective, g: Regulariser, state: Point, down: Global, key):
        c, start = self.correction(state, down), g.prox(down.x, self.eta_round)
        z, total = corrected_steps(f, g, start, c, self.eta, self.tau, key)
        mean_grad = total / self.tau
        return Reply(mean_grad, mean_grad - state, {"drift": norm(z - start)})

    def server(self, g, server, received: Received):
        direction = server.mean_grad + received.mean
        x = g.prox(server.x, self.eta_round) - self.eta_round * direction
        return Global(x, server.mean_grad + received.share * received.mean)

    def output(self, g, server):
        return g.prox(server.x, self.eta_round)
