"""Wrapper: clients also report their loss at the model they start from, one number a round.

The server then knows the objective of every model it broadcast, exactly and at no extra vector,
which is what a step-size search or a safeguard needs.
"""

from typing import Any

from proxfl.core import Algorithm, Objective, Received, Regulariser, Reply
from proxfl.pytree import pytree


@pytree
class Watched(Algorithm[Any, Any, Any, Any]):
    """Any variant of Algorithm 1 (it must say where a client starts), with its loss reported."""

    inner: Any

    @property
    def needs_everyone(self):
        return self.inner.needs_everyone

    @property
    def longest_prox(self):
        return self.inner.longest_prox

    def init(self, g, x0):
        return self.inner.init(g, x0)

    def broadcast(self, g, server):
        return self.inner.broadcast(g, server)

    def client(self, f: Objective, g: Regulariser, state: Any, down: Any, key):
        reply = self.inner.client(f, g, state, down, key)
        loss = f.value(self.inner.start(g, state, down))
        return Reply(reply.state, reply.up, reply.info | {"loss": loss})

    def server(self, g, server, received: Received):
        return self.inner.server(g, server, received)

    def output(self, g, server):
        return self.inner.output(g, server)
