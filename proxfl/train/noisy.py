"""Sites in this process whose sums carry the noise of all of them.

It is drawn from random bytes of this process that are never written, not from the seed of the run,
which everybody knows: so the model protects rows from whoever reads it, and two runs differ. A run
that is resumed goes on with other noise; of the rounds since its checkpoint nothing has left.
"""

import secrets
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from proxfl.core import Algorithm
from proxfl.train.federation import Answers, Call, Exact
from proxfl.train.local import LocalFederation
from proxfl.train.privacy import Noise


class NoisyFederation(LocalFederation):
    """A federation of which nothing but noised sums is seen."""

    def __init__(self, noise: Noise, *about: Any):
        super().__init__(*about)
        self.noise, self.secret = noise, secrets.token_bytes(32)

    def ask(self, task: str, payload: Any) -> Any:
        raise ValueError(f"The answer to the task {task!r} carries no noise.")

    def visit(
        self, algorithm: Algorithm, call: Call, down: Any, exact: Exact | None = None
    ) -> Answers:
        answers = super().visit(algorithm, call, down, exact)
        mean, as_point = ravel_pytree(answers.received.mean)
        rows, seed = int(self.shards.size.sum()), self.secret + call.step.to_bytes(8, "little")
        total = self.noise.added(seed, rows * np.asarray(mean), rows)
        received = answers.received._replace(mean=as_point(jnp.asarray(total / rows)))
        return answers._replace(received=received)
