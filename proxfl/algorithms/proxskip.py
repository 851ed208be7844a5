"""ProxSkip, or Scaffnew (Mishchenko et al. 2022), in its composite form: one prox a round, exact.

With a = eta tau and control variates h_i that start at 0,

    x_hat <- x_hat - eta (grad f_i(x_hat) - h_i), tau times from x_hat = x,
    x <- prox(mean(x_hat_i - a h_i), a),    h_i <- h_i + (x - x_hat_i) / a.

The published method draws the number of local steps, one for all clients, as Geometric(1 / tau):
`steps = "geometric"` does so at the server and sends it down (the first round, which no draw
precedes, has tau). `steps = "fixed"` always takes tau, as practice does. At g = 0 the h_i average
to zero, this is Scaffnew, and with fixed steps it is Algorithm 1 with eta_g = 1. Theory, strongly
convex: eta = 1 / L and tau of the order of sqrt(L / mu).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat, repeat_drawn
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import choice, count, positive, pytree


class Model(NamedTuple):
    """The server's model and, where it is drawn, the number of local steps of the next round."""

    x: Point
    times: Int[Array, ""] | None


class Memory(NamedTuple):
    """A client's control variate before the last broadcast is known, and its last local model."""

    h: Point
    x_hat: Point


@pytree
class ProxSkip(Algorithm[Model, Memory, Model, Point]):
    needs_everyone = True

    eta: Scalar = positive()
    tau: int = count(default=1)
    steps: str = choice("geometric", default="fixed")

    @property
    def longest_prox(self):
        return self.eta * self.tau

    def init(self, g, x0):
        times = None if self.steps == "fixed" else jnp.array(self.tau, jnp.int32)
        return Model(x0, times), Memory(zeros_like(x0), x0)

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: Memory, down: Model, key):
        a = self.eta * self.tau
        h = state.h + (down.x - state.x_hat) / a
        step = lambda x, t, key: x - self.eta * (f.grad(x, key) - h)
        if down.times is None:
            x_hat = repeat(step, down.x, key, self.tau)
        else:
            x_hat = repeat_drawn(step, down.x, key, down.times)
        move = x_hat - down.x
        return Reply(Memory(h, x_hat), move - a * h, {"drift": norm(move)})

    def server(self, g, server, received: Received):
        x = g.prox(server.x + received.mean, self.eta * self.tau)
        if self.steps == "fixed":
            return Model(x, None)
        return Model(x, jax.random.geometric(received.key, 1 / self.tau, dtype=jnp.int32))

    def output(self, g, server):
        return server.x
