"""FedDR (Tran-Dinh et al. 2021): randomised Douglas-Rachford splitting.

    y_i <- y_i + alpha (x - x_i),    x_i ~ argmin f_i + |. - y_i|^2 / (2 gamma),
    x = prox(mean over all clients of (2 x_i - y_i), gamma).

The inner problem gets tau gradient steps of length eta from the last x_i; so warm-started, a fixed
number of them suffices for exact convergence on strongly convex problems. Clients send the change
of 2 x_i - y_i, and the server adds it to a running mean, which lets clients sit rounds out. The
paper's initial pass over all clients is the first round here. Theory: 0 < alpha < 2, and
gamma < 1 / (3 L) for non-convex f with alpha = 1. alpha = 1 is FedADMM, alpha = 2 FedSplit.
"""

from typing import NamedTuple

from proxfl.algorithms.fedprox import pulled_steps
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, norm
from proxfl.pytree import count, positive, pytree


class Split(NamedTuple):
    """A client's model and the point its inner problem is anchored at."""

    x: Point
    y: Point


@pytree
class FedDR(Algorithm[Point, Split, Point, Point]):
    needs_everyone = False

    gamma: Scalar = positive()
    eta: Scalar = positive()
    tau: int = count(default=1)
    alpha: Scalar = positive(default=1.0)

    @property
    def longest_prox(self):
        return self.gamma

    def init(self, g, x0):
        return x0, Split(x0, x0)

    def broadcast(self, g, server):
        return g.prox(server, self.gamma)

    def client(self, f: Objective, g: Regulariser, state: Split, down: Point, key):
        y = state.y + self.alpha * (down - state.x)
        x = pulled_steps(f, state.x, y, 1 / self.gamma, self.eta, self.tau, key)
        change = 2 * (x - state.x) - (y - state.y)
        return Reply(Split(x, y), change, {"drift": norm(x - down)})

    def server(self, g, server, received: Received):
        return server + received.share * received.mean

    def output(self, g, server):
        return g.prox(server, self.gamma)
