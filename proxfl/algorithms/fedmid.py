"""FedMid (Yuan, Zaheer, Reddi 2021): proximal steps at the client and again at the server.

The regulariser acts twice a round, by tau client steps of length eta and by one server step, so
the limit with one client, tau = 1 and eta_g = 1 is the solution for twice the weight. Published
codes differ in the server's prox: "full" is the authors' own (step eta_g * eta * tau), "eta"
drops tau, "none" drops the prox. `client_prox="none"` is the authors' variant with a prox at the
server only.
"""

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, norm
from proxfl.pytree import choice, count, positive, pytree


@pytree
class FedMid(Algorithm[Point, None, Point, Point]):
    needs_everyone = False

    eta: Scalar = positive()
    eta_g: Scalar = positive(default=1.0)
    tau: int = count(default=1)
    server_prox: str = choice("eta", "none", default="full")
    client_prox: str = choice("none", default="every step")

    @property
    def longest_prox(self):
        return self.eta_g * self.eta * self.tau

    def init(self, g, x0):
        return x0, None

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: None, down: Point, key):
        inner = self.eta if self.client_prox == "every step" else 0 * self.eta
        step = lambda w, t, key: g.prox(w - self.eta * f.grad(w, key), inner)
        move = repeat(step, down, key, self.tau) - down
        return Reply(None, move, {"drift": norm(move)})

    def server(self, g, server, received: Received):
        outer = {"full": self.tau, "eta": 1, "none": 0}[self.server_prox] * self.eta_g * self.eta
        return g.prox(server + self.eta_g * received.mean, outer)

    def output(self, g, server):
        return server
