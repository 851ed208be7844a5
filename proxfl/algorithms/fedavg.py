"""FedAvg (McMahan et al. 2017), with a server step: local gradient steps, then the mean.

It knows nothing of g, and for tau > 1 it is biased by an amount that grows with eta (tau - 1).
"""

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm
from proxfl.pytree import count, positive, pytree


@pytree
class FedAvg(Algorithm[Point, None, Point, Point]):
    needs_everyone = False
    longest_prox = 0.0

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)

    def init(self, g, x0):
        return x0, None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Point, key):
        step = lambda y, t, key: y - self.eta * f.grad(y, key)
        move = repeat(step, down, key, self.tau) - down
        return Reply(None, move, {"drift": norm(move)})

    def server(self, g, server, received: Received):
        return server + self.eta_g * received.mean

    def output(self, g, server):
        return server
