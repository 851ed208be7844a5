"""Fast-FedDA (Bao et al. 2022): sums of gradients and of models, steps that decay like 2/(mu t).

With t counted in local steps, q_t = mu t / 2 + gamma, G the sum of gradients and X that of models,

    w = prox(((mu / 2) X + gamma x0 - G) / q_t, t / q_t).

The authors' code appends both the last local model and the server's to X, so X holds more terms
than the formula counts and the limit is that of a problem with the ridge -mu/(2 tau) added.
`double_count="no"` leaves the last local model out, which removes that bias.
"""

from typing import NamedTuple

import jax.numpy as jnp

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat
from proxfl.points import Point, Scalar, dtype, norm, zeros_like
from proxfl.pytree import choice, count, positive, pytree


class Sums(NamedTuple):
    """Sums over all local steps so far; the models leave out the newest one."""

    grads: Point
    models: Point


class Clocked(NamedTuple):
    """The sums, the anchor x0, and how many local steps they hold."""

    sums: Sums
    anchor: Point
    t: Scalar


class Down(NamedTuple):
    sums: Sums
    t: Scalar


@pytree
class FastFedDA(Algorithm[Clocked, Point, Down, Sums]):
    """Needs a strongly convex loss in theory; mu and gamma are the user's to choose."""

    needs_everyone = False

    mu: Scalar = positive()
    gamma: Scalar = positive()
    tau: int = count(default=1)
    double_count: str = choice("no", default="yes")

    def init(self, g, x0):
        server = Clocked(Sums(zeros_like(x0), zeros_like(x0)), x0, jnp.zeros((), dtype(x0)))
        return server, x0  # clients know the anchor: it costs no message

    def primal(self, g, sums: Sums, anchor: Point, t):
        q = self.mu * t / 2 + self.gamma
        return g.prox((self.mu / 2 * sums.models + self.gamma * anchor - sums.grads) / q, t / q)

    def broadcast(self, g, server):
        return Down(server.sums, server.t)

    def client(self, f: Objective, g: Regulariser, state: Point, down: Down, key):
        def step(carry, k, key):
            sums, w = carry
            sums = Sums(sums.grads + f.grad(w, key), sums.models + w)
            return sums, self.primal(g, sums, state, down.t + k + 1)

        first = self.primal(g, down.sums, state, down.t)
        sums, w = repeat(step, (down.sums, first), key, self.tau)
        models = sums.models + w if self.double_count == "yes" else sums.models
        up = Sums(sums.grads - down.sums.grads, models - down.sums.models)
        return Reply(state, up, {"drift": norm(w - first)})

    def server(self, g, server, received: Received):
        grads, models = received.mean
        sums = Sums(server.sums.grads + grads, server.sums.models + models)
        return Clocked(sums, server.anchor, server.t + self.tau)

    def output(self, g, server):
        return self.primal(g, server.sums, server.anchor, server.t)
