"""Algorithm 1 letter by letter: the uplink is the pre-proximal local model z_hat.

Its mean correction is an integrator: nothing pulls a rounding error in it back. Kept to measure
that drift against `Decoupled`, which is the same iteration in exact arithmetic.
"""

import jax.numpy as jnp

from proxfl.algorithms.decoupled import Memory
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import count, positive, pytree


@pytree
class AsPrinted(Algorithm[Point, Memory, Point, Point]):
    """The paper's Algorithm 1 with its literal message."""

    needs_everyone = True

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
        return x0, Memory(start=x0, mean_grad=zeros_like(x0))

    def broadcast(self, g, server):
        return server

    def correction(self, state: Memory, down: Point) -> Point:
        return (state.start - down) / self.eta_round - state.mean_grad

    def client(self, f: Objective, g: Regulariser, state: Memory, down: Point, key):
        c = self.correction(state, down)
        start = g.prox(down, self.eta_round)

        def step(carry, t, key):
            z_hat, z, total = carry
            grad = f.grad(z, key)
            z_hat = z_hat - self.eta * (grad + c)
            return z_hat, g.prox(z_hat, (t + 1) * self.eta), total + grad

        z_hat, z, total = repeat(step, (start, start, zeros_like(start)), key, self.tau)
        return Reply(Memory(start, total / self.tau), z_hat, {"drift": norm(z - start)})

    def server(self, g, server, received: Received):
        start = g.prox(server, self.eta_round)
        return start + self.eta_g * (received.mean - start)

    def output(self, g, server):
        return g.prox(server, self.eta_round)
