"""As many rounds as were asked for, and nothing but rounds: what privacy noise is counted for.

The method is proximal gradient, which is Algorithm 1 with one local step a round. Its step is
given. Nobody asks for losses, curvatures or certificates, since what sites say to those is not
noised; so nothing is known of the model but that it was reached so.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from proxfl.algorithms import ProximalGradient
from proxfl.engine.round import compiled_exchanges, one_round
from proxfl.points import Point
from proxfl.train.drivers.driver import Certificate, Driver, Record, output
from proxfl.train.privacy import WITHHELD


class State(NamedTuple):
    """Everything the server knows."""

    server: Any
    round: Any
    counted: Any


def method(step: float | None) -> ProximalGradient:
    return ProximalGradient(jnp.asarray(step, jnp.float64))


class NoisyRounds(Driver):
    """Rounds whose answers carry noise, over a federation that adds it."""

    def begin(self) -> State:
        server = self.algorithm(None).init(self.problem.g, self.problem.x0)[0]
        return State(server, jnp.asarray(0), jnp.asarray(0))

    def algorithm(self, state: Any) -> ProximalGradient:
        return method(self.settings.eta)

    def model(self, state: State) -> Point:
        return output(self.algorithm(state), self.problem.g, state.server)

    def obstacle(self, state: State) -> str | None:
        return WITHHELD if int(state.round) >= self.settings.rounds else None

    def one_round(self, state: State) -> tuple[State, Record]:
        algorithm, made = self.algorithm(state), int(state.round)
        exchanges, before = compiled_exchanges(algorithm), (state.server, int(state.counted))
        ask = self.federation.asked_in(algorithm, made)
        server, counted, _ = one_round(exchanges, self.problem.g, *before, ask)
        after = State(server, jnp.asarray(made + 1), jnp.asarray(counted))
        return after, Record(made + 1, np.nan, np.nan, self.settings.eta, True)

    def certify(self, state: State, last: bool = False) -> Certificate:
        nothing = dict.fromkeys(self.federation.sites, np.nan)
        return Certificate(np.nan, np.nan, np.nan, nothing, None, None, False)
