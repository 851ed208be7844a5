"""The paper's own negative example (its Section 2.2): drift-corrected proximal steps, coupled.

The client's one local model goes through the prox at every step and is what it sends; the server
can then no longer read the mean gradient off the mean of the replies, and the optimum is lost.
"""

import jax.numpy as jnp

from proxfl.algorithms.decoupled import Memory
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import count, positive, pytree


@pytree
class Coupled(Algorithm[Point, Memory, Point, Point]):
    """Naive proximal SGD with the paper's correction: biased, kept for comparison."""

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

    def client(self, f: Objective, g: Regulariser, state: Memory, down: Point, key):
        c = (state.start - down) / self.eta_round - state.mean_grad
        start = g.prox(down, self.eta_round)

        def step(carry, t, key):
            z, total = carry
            grad = f.grad(z, key)
            return g.prox(z - self.eta * (grad + c), (t + 1) * self.eta), total + grad

        z, total = repeat(step, (start, zeros_like(start)), key, self.tau)
        return Reply(Memory(start, total / self.tau), z - start, {"drift": norm(z - start)})

    def server(self, g, server, received: Received):
        return g.prox(server, self.eta_round) + self.eta_g * received.mean

    def output(self, g, server):
        return g.prox(server, self.eta_round)
