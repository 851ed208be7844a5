"""MimeLite (Karimireddy et al. 2021): Mime without its correction, in one exchange a round.

    y <- y - eta ((1 - beta) grad f_i(y) + beta m), tau times from y = x,
    x <- x + eta_g mean(y - x),    m <- (1 - beta) c + beta m,

with c the mean full gradient at x, and m frozen during the round. The paper has eta_g = 1. With
beta = 0 it is FedAvg. It knows nothing of g, and is biased where clients differ.
"""

from proxfl.algorithms.mime import Model
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Scalar, norm, zeros_like
from proxfl.pytree import count, fraction, positive, pytree


@pytree
class MimeLite(Algorithm[Model, None, Model, Model]):
    needs_everyone = False
    longest_prox = 0.0

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)
    beta: Scalar = fraction(default=0.0)

    def init(self, g, x0):
        return Model(x0, zeros_like(x0)), None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Model, key):
        beta = self.beta
        step = lambda y, t, key: y - self.eta * ((1 - beta) * f.grad(y, key) + beta * down.m)
        move = repeat(step, down.x, key, self.tau) - down.x
        return Reply(None, Model(move, f.full_grad(down.x)), {"drift": norm(move)})

    def server(self, g, server, received: Received):
        move, grad = received.mean
        m = (1 - self.beta) * grad + self.beta * server.m
        return Model(server.x + self.eta_g * move, m)

    def output(self, g, server):
        return server.x
