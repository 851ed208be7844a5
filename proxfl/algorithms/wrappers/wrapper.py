"""What wrappers share: whatever one does not change is the inner method's."""

from typing import Any

from proxfl.core import Algorithm, Objective, Received, Regulariser
from proxfl.points import Scalar


class Wrapper(Algorithm[Any, Any, Any, Any]):
    """A method around another, its field `inner`."""

    inner: Any

    @property
    def needs_everyone(self) -> bool:
        return self.inner.needs_everyone

    @property
    def longest_prox(self) -> Scalar:
        return self.inner.longest_prox

    @property
    def client_noise(self) -> dict[str, Scalar]:
        return self.inner.client_noise

    def init(self, g, x0):
        return self.inner.init(g, x0)

    def broadcast(self, g, server):
        return self.inner.broadcast(g, server)

    def client(self, f: Objective, g: Regulariser, state: Any, down: Any, key):
        return self.inner.client(f, g, state, down, key)

    def server(self, g, server, received: Received):
        return self.inner.server(g, server, received)

    def output(self, g, server):
        return self.inner.output(g, server)
