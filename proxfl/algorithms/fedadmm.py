"""FedADMM (Wang, Marella, Anderson 2022): the alternating direction method of multipliers.

    x_i ~ argmin f_i + <lambda_i, . - x> + |. - x|^2 / (2 gamma),
    lambda_i <- lambda_i + (x_i - x) / gamma,
    x = prox(mean over all clients of (x_i + gamma lambda_i), gamma).

The inner problem gets tau gradient steps of length eta from the last x_i; clients send the change
of x_i + gamma lambda_i, so they may sit rounds out. With the same inner steps it is FedDR at
alpha = 1. Two other methods of this name (Gong et al. 2022; Zhou and Li) are smooth only.
"""

from typing import NamedTuple

from proxfl.algorithms.fedprox import pulled_steps
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import count, positive, pytree


class Dual(NamedTuple):
    """A client's model and its multiplier, which becomes -grad f_i at the solution."""

    x: Point
    lam: Point


@pytree
class FedADMM(Algorithm[Point, Dual, Point, Point]):
    needs_everyone = False

    gamma: Scalar = positive()
    eta: Scalar = positive()
    tau: int = count(default=1)

    @property
    def longest_prox(self):
        return self.gamma

    def init(self, g, x0):
        return x0, Dual(x0, zeros_like(x0))

    def broadcast(self, g, server):
        return g.prox(server, self.gamma)

    def client(self, f: Objective, g: Regulariser, state: Dual, down: Point, key):
        anchor = down - self.gamma * state.lam
        x = pulled_steps(f, state.x, anchor, 1 / self.gamma, self.eta, self.tau, key)
        lam = state.lam + (x - down) / self.gamma
        change = x - state.x + (x - down)
        return Reply(Dual(x, lam), change, {"drift": norm(x - down)})

    def server(self, g, server, received: Received):
        return server + received.share * received.mean

    def output(self, g, server):
        return g.prox(server, self.gamma)
