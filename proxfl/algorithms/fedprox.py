"""FedProx (Li et al. 2020): local gradient steps held back by a pull towards the server's model.

    y <- y - eta (grad f_i(y) + mu (y - x)), tau times from y = x;    x <- x + eta_g mean(y - x).

mu = 0 is FedAvg, and eta_g = 1 the paper's plain average. Where clients differ its limit is
stationary for the mean Moreau envelope of the f_i, not for f. It knows nothing of g; with g inside
the local problem it becomes `FedMSPP` on full batches.
"""

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm
from proxfl.pytree import count, non_negative, positive, pytree


def pulled_steps(
    f: Objective, start: Point, anchor: Point, pull: Scalar, eta: Scalar, tau: int, key
) -> Point:
    """tau gradient steps on f(y) + (pull / 2) |y - anchor|^2, from `start`."""
    step = lambda y, t, key: y - eta * (f.grad(y, key) + pull * (y - anchor))
    return repeat(step, start, key, tau)


@pytree
class FedProx(Algorithm[Point, None, Point, Point]):
    needs_everyone = False
    longest_prox = 0.0

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)
    mu: Scalar = non_negative(default=0.1)

    def init(self, g, x0):
        return x0, None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Point, key):
        move = pulled_steps(f, down, down, self.mu, self.eta, self.tau, key) - down
        return Reply(None, move, {"drift": norm(move)})

    def server(self, g, server, received: Received):
        return server + self.eta_g * received.mean

    def output(self, g, server):
        return server
