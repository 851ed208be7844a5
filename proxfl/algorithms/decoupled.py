"""Composite federated learning with corrected drift (Zhang, Hu, Johansson; Algorithm 1).

Each client holds two local models, z_hat before the proximal step and z after it:

    z_hat <- z_hat - eta (grad f_i(z) + c_i),    z <- prox(z_hat, (t + 1) eta),

and corrects its drift by c_i, learnt from the broadcast with no second vector on the wire.

The uplink is -eta times the summed gradients rather than z_hat. The two give the same server
step when the c_i average to zero, as they do in exact arithmetic; but with z_hat that average
is carried over from round to round, rounding errors and all, and single precision drifts.
"""

from typing import NamedTuple

import jax.numpy as jnp

from proxfl.algorithms.exactness import longest_step
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import choice, count, positive, pytree

# The step of the prox inside the local loop: the paper's, and its two ablations.
growing = lambda t, eta: (t + 1) * eta
INNER_STEP = {
    "growing": growing,
    "constant": lambda t, eta: eta,
    "none": lambda t, eta: 0 * eta,
}


class Memory(NamedTuple):
    """What a client keeps of its last round: where it started and its mean gradient."""

    start: Point
    mean_grad: Point


def corrected_steps(
    f: Objective, g: Regulariser, start: Point, c: Point, eta, tau: int, key, inner=growing
) -> tuple[Point, Point]:
    """The local loop of Algorithm 1: the last post-proximal model and the sum of gradients."""

    def step(carry, t, key):
        z, total = carry
        total = total + f.grad(z, key)
        z_hat = start - eta * (total + (t + 1) * c)
        return g.prox(z_hat, inner(t, eta)), total

    return repeat(step, (start, zeros_like(start)), key, tau)


@pytree
class Decoupled(Algorithm[Point, Memory, Point, Point]):
    """The paper's Algorithm 1; only `inner_prox="growing"` leaves optima where they are."""

    needs_everyone = True

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)
    inner_prox: str = choice("constant", "none", default="growing")

    @property
    def eta_round(self):
        return self.eta_g * self.eta * self.tau

    @property
    def longest_prox(self):
        return jnp.maximum(self.eta_round, self.eta * self.tau)

    def longest_proven(self, largest: float, mean: float, noisy: bool) -> float | None:
        """The longest eta_round proven to converge, with minibatches up to their noise, by the
        largest and the mean smoothness, if g is convex.
        """
        if self.inner_prox != "growing":
            return None
        return longest_step(largest, mean, float(self.eta_g), self.tau, noisy=noisy)

    def init(self, g, x0):
        return x0, Memory(start=x0, mean_grad=zeros_like(x0))  # so that c = 0 at first

    def broadcast(self, g, server):
        return server

    def correction(self, state: Memory, down: Point) -> Point:
        return (state.start - down) / self.eta_round - state.mean_grad

    def start(self, state: Memory) -> Point:
        """The model from which a client started in the round that ended in this state."""
        return state.start

    def client(self, f: Objective, g: Regulariser, state: Memory, down: Point, key):
        c, start = self.correction(state, down), g.prox(down, self.eta_round)
        inner = INNER_STEP[self.inner_prox]
        z, total = corrected_steps(f, g, start, c, self.eta, self.tau, key, inner)
        memory = Memory(start, total / self.tau)
        return Reply(memory, -self.eta * total, {"drift": norm(z - start)})

    def server(self, g, server, received: Received):
        return g.prox(server, self.eta_round) + self.eta_g * received.mean

    def output(self, g, server):
        return g.prox(server, self.eta_round)
