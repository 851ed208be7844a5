"""FedDA (Yuan, Zaheer, Reddi 2021): dual averaging at the client, the mean in the dual space.

The prox weight is the total step length behind the dual point and never resets: it grows by eta
with every local step and by eta_g * eta * tau with every round.
"""

from typing import NamedTuple

import jax.numpy as jnp

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, dtype, norm
from proxfl.pytree import count, positive, pytree


class Dual(NamedTuple):
    """A dual point and the total step length behind it."""

    y: Point
    elapsed: Scalar


@pytree
class FedDA(Algorithm[Dual, None, Dual, Point]):
    needs_everyone = False

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)

    def init(self, g, x0):
        return Dual(x0, jnp.zeros((), dtype(x0))), None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Dual, key):
        def step(y, t, key):
            w = g.prox(y, down.elapsed + t * self.eta)
            return y - self.eta * f.grad(w, key)

        y = repeat(step, down.y, key, self.tau)
        w = g.prox(y, down.elapsed + self.tau * self.eta)
        return Reply(None, y - down.y, {"drift": norm(w - g.prox(down.y, down.elapsed))})

    def server(self, g, server, received: Received):
        elapsed = server.elapsed + self.eta_g * self.eta * self.tau
        return Dual(server.y + self.eta_g * received.mean, elapsed)

    def output(self, g, server):
        return g.prox(server.y, server.elapsed)
