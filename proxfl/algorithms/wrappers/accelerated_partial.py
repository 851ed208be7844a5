"""Acceleration at the server alone, which sends the mixed start itself.

For Algorithm 1 where only some clients answer: a client that missed rounds holds no ring of past
broadcasts, so the start goes down beside the mean gradient that `DecoupledPartial` sends anyway,
two vectors as without acceleration. And for any other method whose server state has a model `x`
that clients start from, such as Mime or ProxSkip. The mixing and its safeguard are those of
`Accelerated`.
"""

from typing import Any, NamedTuple

from proxfl.algorithms.ring import mix
from proxfl.algorithms.wrappers.accelerated import Guard, Past, extrapolate, fresh
from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Objective, Received, Regulariser
from proxfl.points import Point
from proxfl.pytree import choice, count, pytree


class Server(NamedTuple):
    inner: Any  # with a field x
    past: Past
    guard: Guard


@pytree
class Earlier:
    """An exchange of the inner method before its last: nothing is mixed after it."""

    one: Any

    def broadcast(self, g, server: Server):
        return self.one.broadcast(g, server.inner)

    def client(self, f: Objective, g: Regulariser, state: Any, down: Any, key):
        return self.one.client(f, g, state, down, key)

    def server(self, g, server: Server, received: Received):
        return Server(self.one.server(g, server.inner, received), server.past, server.guard)


@pytree
class AcceleratedPartial(Wrapper):
    """A method from mixed starting points."""

    inner: Any
    memory: int = count(default=10, least=2)
    how: str = choice("nesterov", default="anderson")

    @property
    def eta_round(self):
        return self.inner.eta_round

    def exchanges(self):
        *earlier, _ = self.inner.exchanges()
        return *(Earlier(one) for one in earlier), self

    def init(self, g, x0):
        inner, state = self.inner.init(g, x0)
        return Server(inner, *fresh(x0, self.memory)), state

    def broadcast(self, g, server):
        return self.inner.broadcast(g, server.inner)

    def correction(self, state: Any, down: Any) -> Point:
        return self.inner.correction(state, down)

    def server(self, g, server: Server, received: Received):
        after = self.inner.server(g, server.inner, received)
        weights, past, guard = extrapolate(
            server.inner.x, after.x, server.past, server.guard, self.how
        )
        return Server(after._replace(x=mix(past.results, weights)), past, guard)

    def output(self, g, server):
        return self.inner.output(g, server.inner)
