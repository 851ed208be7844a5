"""Wrapper: clip and noise every client's uplink, so that a whole client's data are protected.

    up <- up * min(1, clip / |up|), the norm taken over the whole message; then
    at = "client": up <- up + noise_multiplier * clip * N(0, I), before it leaves the client, or
    at = "server": mean <- mean + noise_multiplier * clip * largest_share * N(0, I).

With "client" nobody ever sees a message without noise (local privacy). With "server" the noise in
the mean is smaller by far, but the server must be trusted. `largest_share` is the largest weight
one client has in the mean: 1 / cohort where weights are equal. Its default never adds too little.
Metrics of the inner method are withheld: they are computed from the data and carry no noise.
Noise hides a message only from those who cannot redraw it: a deployed client must make its key from
a secret of its own, not from a seed that the server knows.

What clipping and noise do to a method's memory (checked in tests/algorithms/test_wrappers.py):

* Clients keep what they computed, not what was sent. In Algorithm 1 (`Decoupled`) the correction
  c_i = mean(sent) - computed_i then averages not to zero but to that round's noise and clipped
  part. Both are forgotten in the next round, since the mean is learnt anew from every broadcast.
* Where the server sums changes (DecoupledPartial, Scaffold, FedDR, FedADMM, FedSplit), and in
  `AsPrinted`, whose mean correction is carried over, the errors of all rounds add up: a random
  walk under noise, a bias under clipping. Prefer Decoupled.
"""

from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Objective, Received, Regulariser, Reply, is_compact
from proxfl.points import Scalar, norm
from proxfl.pytree import choice, fraction, non_negative, positive, pytree

NOISE = 2**31 - 2  # folded into a key the inner method may use too; no step count gets here


def clipped(up: Any, longest: Scalar) -> Any:
    """The message, shortened to norm `longest` if it is longer."""
    scale = jnp.minimum(1.0, longest / norm(up))
    return jax.tree.map(lambda a: scale * a, up)


def noised(up: Any, deviation: Scalar, key: PRNGKeyArray) -> Any:
    """The message plus Gaussian noise of this standard deviation in every coordinate."""
    flat, unravel = jax.flatten_util.ravel_pytree(up)
    drawn = jax.random.normal(jax.random.fold_in(key, NOISE), flat.shape, flat.dtype)
    return unravel(flat + deviation * drawn)


@pytree
class Private(Wrapper):
    """Any method, with differential privacy for each client as a whole."""

    inner: Any
    clip: Scalar = positive()
    noise_multiplier: Scalar = non_negative()
    at: str = choice("server", default="client")
    largest_share: Scalar = fraction(default=1.0)

    @property
    def client_noise(self):
        own = {"clip": self.clip, "noise_multiplier": self.noise_multiplier}
        here = self.at == "client" and float(self.noise_multiplier) > 0
        return self.inner.client_noise | (own if here else {})

    def exchanges(self):
        rest = (self.clip, self.noise_multiplier, self.at, self.largest_share)
        return tuple(Private(one, *rest) for one in self.inner.exchanges())

    def client(self, f: Objective, g: Regulariser, state: Any, down: Any, key):
        reply = self.inner.client(f, g, state, down, key)
        if any(map(is_compact, jax.tree.leaves(reply.up, is_leaf=is_compact))):
            raise ValueError(
                "Noise does not fit a compressed message: use Compressed(Private(...))."
            )
        up = clipped(reply.up, self.clip)
        if self.at == "client":
            up = noised(up, self.noise_multiplier * self.clip, key)
        return Reply(reply.state, up)

    def server(self, g, server, received: Received):
        if self.at == "server":
            deviation = self.noise_multiplier * self.clip * self.largest_share
            received = received._replace(mean=noised(received.mean, deviation, received.key))
        return self.inner.server(g, server, received)

    def spent(self, rounds: int, delta: float, sampling: tuple[int, int] | None = None) -> float:
        """The epsilon of `rounds` rounds at this delta, with `sampling` = (cohort, clients).

        Noise at the client protects against the server, which sees whose message it reads: being
        drawn at random then hides nothing, and sampling does not count.
        """
        from proxfl.algorithms.accounting import epsilon

        releases = rounds * len(self.inner.exchanges())
        seen = sampling if self.at == "server" else None
        return epsilon(float(self.noise_multiplier), releases, delta, seen)
