"""Wrapper: clients also report their loss at the model they start from, one number a round.

The server then knows the objective of every model it broadcast, exactly and at no extra vector,
which is what a step-size search or a safeguard needs.
"""

from typing import Any

from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Objective, Regulariser, Reply
from proxfl.pytree import pytree


@pytree
class ReportsLoss(Wrapper):
    """Algorithm 1, or any variant that says where a client started, with its loss reported."""

    inner: Any

    def client(self, f: Objective, g: Regulariser, state: Any, down: Any, key):
        reply = self.inner.client(f, g, state, down, key)
        loss = f.value(self.inner.start(reply.state))
        return Reply(reply.state, reply.up, reply.info | {"loss": loss})
