"""FedSplit (Pathak and Wainwright 2020): Peaceman-Rachford splitting.

    h_i ~ argmin f_i + |. - (2 x - z_i)|^2 / (2 gamma),
    z_i <- z_i + 2 (h_i - x),    x = mean z_i.

The inner problem gets tau gradient steps of length eta from the last h_i. Theory: strongly convex
f_i, gamma = 1 / sqrt(mu L); where the paper minimises the sum of the f_i, here it is their mean,
with the same iterates. z_i is never reset to x: that would be over-relaxed FedProx, and biased.

Extensions: x = prox(mean z_i, gamma), which for g = 0 is the paper's; and, since the server adds
changes of z_i to a running mean, clients may sit rounds out. With the same inner steps it is FedDR
at alpha = 2, by y_i = 2 x - z_i.
"""

from typing import NamedTuple

from proxfl.algorithms.fedprox import pulled_steps
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, norm
from proxfl.pytree import count, positive, pytree


class Split(NamedTuple):
    """A client's splitting variable and its model."""

    z: Point
    h: Point


@pytree
class FedSplit(Algorithm[Point, Split, Point, Point]):
    needs_everyone = False

    gamma: Scalar = positive()
    eta: Scalar = positive()
    tau: int = count(default=1)

    @property
    def longest_prox(self):
        return self.gamma

    def init(self, g, x0):
        return x0, Split(x0, x0)

    def broadcast(self, g, server):
        return g.prox(server, self.gamma)

    def client(self, f: Objective, g: Regulariser, state: Split, down: Point, key):
        anchor = 2 * down - state.z
        h = pulled_steps(f, state.h, anchor, 1 / self.gamma, self.eta, self.tau, key)
        change = 2 * (h - down)
        return Reply(Split(state.z + change, h), change, {"drift": norm(h - down)})

    def server(self, g, server, received: Received):
        return server + received.share * received.mean

    def output(self, g, server):
        return g.prox(server, self.gamma)
