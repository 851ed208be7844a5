"""FedPD (Zhang et al. 2021): primal-dual steps at every client, the mean taken only now and then.

Around a copy a_i of the server's model, each client iterates

    x_i ~ argmin f_i + <lambda_i, . - a_i> + |. - a_i|^2 / (2 gamma),
    lambda_i <- lambda_i + (x_i - a_i) / gamma,    a_i <- x_i + gamma lambda_i.

After each iteration a coin, one for all clients, says whether to average the a_i or, with
probability `skip`, to go on alone. A round here is what lies between two averages, so the
number of iterations in it is geometric; the server draws it and sends it down, and every byte
counted is one that is sent. (The first round, which no draw precedes, has the mean number.)

The inner problem gets tau gradient steps of length eta from the last x_i. Without skipping this is
FedADMM at g = 0, which is also its composite form; with skipping it stalls where clients differ.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from proxfl.algorithms.fedadmm import Dual
from proxfl.algorithms.fedprox import pulled_steps
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply, repeat_drawn
from proxfl.points import Point, Scalar, norm, zeros_like
from proxfl.pytree import Condition, count, leaf, positive, pytree

BELOW_ONE = Condition("at least 0 and below 1", lambda v: bool(((v >= 0) & (v < 1)).all()))


class Model(NamedTuple):
    """The mean, and how many iterations the next round has."""

    x: Point
    times: Int[Array, ""]


@pytree
class FedPD(Algorithm[Model, Dual, Model, Point]):
    needs_everyone = True
    longest_prox = 0.0

    gamma: Scalar = positive()
    eta: Scalar = positive()
    tau: int = count(default=1)
    skip: Scalar = leaf(default=0.0, rule=BELOW_ONE)

    def init(self, g, x0):
        mean_times = jnp.round(1 / (1 - jnp.asarray(self.skip))).astype(jnp.int32)
        return Model(x0, mean_times), Dual(x0, zeros_like(x0))

    def broadcast(self, g, server):
        return server

    def client(self, f: Objective, g: Regulariser, state: Dual, down: Model, key):
        def iteration(carry, _, key):
            (x, lam), a = carry
            anchor = a - self.gamma * lam
            x = pulled_steps(f, x, anchor, 1 / self.gamma, self.eta, self.tau, key)
            lam = lam + (x - a) / self.gamma
            return Dual(x, lam), x + self.gamma * lam

        state, a = repeat_drawn(iteration, (state, down.x), key, down.times)
        return Reply(state, a - down.x, {"drift": norm(state.x - down.x)})

    def server(self, g, server, received: Received):
        times = jax.random.geometric(received.key, 1 - self.skip, dtype=jnp.int32)
        return Model(server.x + received.mean, times)

    def output(self, g, server):
        return server.x
