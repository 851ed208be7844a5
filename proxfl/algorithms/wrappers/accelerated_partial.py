"""Acceleration where only some clients answer: the server mixes, and sends the mixed start.

A client that missed rounds holds no ring of past broadcasts, so the start itself goes down, beside
the mean gradient that `DecoupledPartial` sends anyway: two vectors, as without acceleration. The
mixing and its safeguard are those of `Accelerated`.
"""

from typing import Any, NamedTuple

from proxfl.algorithms.decoupled_partial import DecoupledPartial, Global
from proxfl.algorithms.ring import mix
from proxfl.algorithms.wrappers.accelerated import Guard, Past, extrapolate, fresh
from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Received, Regulariser
from proxfl.points import Point
from proxfl.pytree import choice, count, pytree


class Server(NamedTuple):
    inner: Global
    past: Past
    guard: Guard


@pytree
class AcceleratedPartial(Wrapper):
    """Algorithm 1 with server memory, from mixed starting points."""

    inner: DecoupledPartial
    memory: int = count(default=10, least=2)
    how: str = choice("nesterov", default="anderson")

    @property
    def eta_round(self):
        return self.inner.eta_round

    def init(self, g, x0):
        inner, state = self.inner.init(g, x0)
        return Server(inner, *fresh(x0, self.memory)), state

    def broadcast(self, g, server):
        return self.inner.broadcast(g, server.inner)

    def correction(self, state: Any, down: Global) -> Point:
        return self.inner.correction(state, down)

    def start(self, g: Regulariser, state: Point, down: Global) -> Point:
        return self.inner.start(g, state, down)

    def server(self, g, server: Server, received: Received):
        after = self.inner.server(g, server.inner, received)
        weights, past, guard = extrapolate(
            server.inner.x, after.x, server.past, server.guard, self.how
        )
        return Server(Global(mix(past.results, weights), after.mean_grad), past, guard)

    def output(self, g, server):
        return self.inner.output(g, server.inner)
