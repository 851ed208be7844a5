"""Centralised proximal gradient, one full gradient per client and round: the reference."""

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar
from proxfl.pytree import positive, pytree


@pytree
class ProximalGradient(Algorithm[Point, None, Point, Point]):
    """x <- prox(x - step * grad f(x), step)."""

    needs_everyone = True

    step: Scalar = positive()

    @property
    def longest_prox(self):
        return self.step

    def init(self, g, x0):
        return x0, None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Point, key):
        return Reply(None, f.full_grad(down))

    def server(self, g, server, received: Received):
        return g.prox(server - self.step * received.mean, self.step)

    def output(self, g, server):
        return server
