"""DP-SPIDER (Lowy, Ghafelebashi, Razaviyayn 2023): private, variance-reduced proximal gradient.

    every `period` rounds    h <- mean(clipped(grad f_i(x)) + noise),
    in between               h <- h + mean(clipped(grad f_i(x) - grad f_i(x_previous)) + noise),
    x <- prox(x - step * h, step),

both gradients on one minibatch, one step a round. Each client adds its own noise, of standard
deviation noise_multiplier times the norm its message is clipped to, so the server need not be
trusted. Changes are short, so `clip_change` may be much smaller than `clip`, and the noise with it.

The paper clips per example and protects single records; here messages are clipped as a whole,
which protects all the data of a client. The authors' released code has no prox. Clients need the
previous point as well, a second vector down, since they may have sat the last round out. Without
noise, and on full batches, this is proximal gradient.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from proxfl.algorithms.wrappers.private import clipped, noised
from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.points import Point, Scalar, dtype, zeros_like
from proxfl.pytree import count, non_negative, positive, pytree


class Walk(NamedTuple):
    """The last two points, the gradient estimate, and the number of rounds so far."""

    x: Point
    previous: Point
    h: Point
    t: Int[Array, ""]


class Down(NamedTuple):
    """`keep` is 0 in a round that starts the estimate anew, and 1 in between."""

    x: Point
    previous: Point
    keep: Scalar


@pytree
class DPSpider(Algorithm[Walk, None, Down, Point]):
    needs_everyone = False

    step: Scalar = positive()
    clip: Scalar = positive()
    clip_change: Scalar = positive()
    noise_multiplier: Scalar = non_negative()
    period: int = count(default=10)

    @property
    def longest_prox(self):
        return self.step

    @property
    def client_noise(self):
        if float(self.noise_multiplier) == 0:
            return {}
        clips = {"clip": self.clip, "clip_change": self.clip_change}
        return clips | {"noise_multiplier": self.noise_multiplier}

    def init(self, g, x0):
        return Walk(x0, x0, zeros_like(x0), jnp.zeros((), jnp.int32)), None

    def keep(self, server: Walk) -> Scalar:
        return (server.t % self.period != 0).astype(dtype(server.x))

    def broadcast(self, g, server):
        return Down(server.x, server.previous, self.keep(server))

    def client(self, f: Objective, g: Regulariser, state: None, down: Down, key):
        longest = down.keep * self.clip_change + (1 - down.keep) * self.clip
        up = clipped(f.grad(down.x, key) - down.keep * f.grad(down.previous, key), longest)
        return Reply(None, noised(up, self.noise_multiplier * longest, key))

    def server(self, g, server, received: Received):
        h = self.keep(server) * server.h + received.mean
        return Walk(g.prox(server.x - self.step * h, self.step), server.x, h, server.t + 1)

    def output(self, g, server):
        return server.x

    def spent(self, rounds: int, delta: float) -> float:
        """The epsilon of `rounds` rounds at this delta, against the server."""
        from proxfl.algorithms.accounting import epsilon

        return epsilon(float(self.noise_multiplier), rounds, delta)
