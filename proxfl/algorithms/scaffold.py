"""Scaffold (Karimireddy et al. 2020): control variates c_i at the clients, their mean c on top.

    y <- y - eta (grad f_i(y) - c_i + c), tau times from y = x,
    c_i <- grad f_i(x), a full pass            (option I), or
    c_i <- c_i - c + (x - y) / (tau eta)       (option II: the mean local gradient),
    x <- x + eta_g mean(y - x),    c <- c + share * mean(change of c_i).

Exact for smooth problems under any participation; two vectors each way. It knows nothing of g:
its composite form is Algorithm 1 (`Decoupled`, or `DecoupledPartial`, with which option II agrees
where g = 0). A prox at the server alone would leave a bias.
"""

from typing import NamedTuple

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import choice, count, positive, pytree


class Model(NamedTuple):
    """A point and a control variate: the server's state, and both messages."""

    x: Point
    c: Point


@pytree
class Scaffold(Algorithm[Model, Point, Model, Model]):
    needs_everyone = False
    longest_prox = 0.0

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)
    option: str = choice("I", default="II")

    def init(self, g, x0):
        return Model(x0, zeros_like(x0)), zeros_like(x0)

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: Point, down: Model, key):
        step = lambda y, t, key: y - self.eta * (f.grad(y, key) - state + down.c)
        move = repeat(step, down.x, key, self.tau) - down.x
        if self.option == "I":
            c = f.full_grad(down.x)
        else:
            c = state - down.c - move / (self.tau * self.eta)
        return Reply(c, Model(move, c - state), {"drift": norm(move)})

    def server(self, g, server, received: Received):
        move, change = received.mean
        return Model(server.x + self.eta_g * move, server.c + received.share * change)

    def output(self, g, server):
        return server.x
