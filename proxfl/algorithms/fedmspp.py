"""FedMSPP (Yuan and Li 2022): a stochastic proximal point step at each client, then the mean.

    y ~ argmin_w f_i(w; B_i) + g(w) + |w - x|^2 / (2 gamma),    x <- mean y,

with one minibatch B_i per client and round, however many inner steps the problem is given: here
tau proximal gradient steps of length eta, from x. In the paper gamma is of the order of
1 / sqrt(rounds); a constant one leaves a bias where clients differ. On full batches this is
FedProx with mu = 1 / gamma and g inside the local problem.
"""

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm
from proxfl.pytree import count, positive, pytree


@pytree
class FedMSPP(Algorithm[Point, None, Point, Point]):
    needs_everyone = False

    gamma: Scalar = positive()
    eta: Scalar = positive()
    tau: int = count(default=1)

    @property
    def longest_prox(self):
        return self.eta

    def init(self, g, x0):
        return x0, None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Point, key):
        batch = key  # the same in every inner step, which is what makes the step proximal

        def step(y, t, _):
            pull = (y - down) / self.gamma
            return g.prox(y - self.eta * (f.grad(y, batch) + pull), self.eta)

        move = repeat(step, down, key, self.tau) - down
        return Reply(None, move, {"drift": norm(move)})

    def server(self, g, server, received: Received):
        return server + received.mean

    def output(self, g, server):
        return server
