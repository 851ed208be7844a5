"""Mime (Karimireddy et al. 2021): the server's optimiser, imitated by every client.

With m the server's momentum (beta = 0: plain SGD) and c the mean full gradient at x,

    y <- y - eta ((1 - beta) (grad f_i(y) - grad f_i(x) + c) + beta m), tau times from y = x,
    x <- x + eta_g mean(y - x),    m <- (1 - beta) c + beta m,

both gradients on one minibatch, m frozen during the round. The paper has eta_g = 1.

There are two exchanges a round, for c must be known first. The server then sends the new m, which
is all that the client's step needs of c and the old m, so momentum costs no further vector.

It knows nothing of g. Extension: with client_prox = "every step" each step ends in prox(y, eta),
and every stationary point of f + g stays where it is.
"""

from typing import NamedTuple

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import choice, count, fraction, positive, pytree


class Model(NamedTuple):
    """A point, and the momentum or the gradient that belongs to it."""

    x: Point
    m: Point


@pytree
class MeanGradient:
    """The first exchange: c enters the momentum, and clients keep x for the second."""

    beta: Scalar

    def broadcast(self, g, server: Model):
        return server.x

    def client(self, f: Objective, g: Regulariser, state: Point, down: Point, key):
        return Reply(down, f.full_grad(down))

    def server(self, g, server: Model, received: Received):
        return Model(server.x, (1 - self.beta) * received.mean + self.beta * server.m)


@pytree
class Mime(Algorithm[Model, Point, Point, Point]):
    """Its client state is the server's point, held from the first exchange to the second."""

    needs_everyone = False

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)
    beta: Scalar = fraction(default=0.0)
    client_prox: str = choice("every step", default="none")

    @property
    def longest_prox(self):
        return self.eta if self.client_prox == "every step" else 0.0

    def exchanges(self):
        return MeanGradient(self.beta), self

    def init(self, g, x0):
        return Model(x0, zeros_like(x0)), x0

    def broadcast(self, g, server):
        return server.m

    def client(self, f: Objective, g: Regulariser, state: Point, down: Point, key):
        def step(y, t, key):
            change = f.grad(y, key) - f.grad(state, key)
            y = y - self.eta * ((1 - self.beta) * change + down)
            return g.prox(y, self.eta) if self.client_prox == "every step" else y

        move = repeat(step, state, key, self.tau) - state
        return Reply(state, move, {"drift": norm(move)})

    def server(self, g, server, received: Received):
        return Model(server.x + self.eta_g * received.mean, server.m)

    def output(self, g, server):
        return server.x
