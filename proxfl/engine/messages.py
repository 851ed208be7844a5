"""The shapes of messages, traced from the algorithm itself and never declared."""

from typing import Any, NamedTuple

import jax

from proxfl.core import Algorithm
from proxfl.engine.visit import visit
from proxfl.problem import Problem, Shard


class Exchange(NamedTuple):
    """The abstract messages of one exchange, and the metrics that go up with the uplink."""

    down: Any
    up: Any
    info: dict[str, Any]


def messages(algorithm: Algorithm, problem: Problem, shard: Shard) -> tuple[Exchange, ...]:
    """The wire format of one round; the shard, one client's, is traced and never read."""
    return shapes_of.eval_shape(algorithm, problem, shard)


@jax.jit
def shapes_of(algorithm: Algorithm, problem: Problem, shard: Shard) -> tuple[Exchange, ...]:
    """A program that nobody runs: what Python traces of it serves all runs of one form."""
    server, state = algorithm.init(problem.g, problem.x0)
    traced = []
    for e, exchange in enumerate(algorithm.exchanges()):
        down = exchange.broadcast(problem.g, server)
        reply = visit(algorithm, problem, shard, state, down, jax.random.key(0), exchange=e)
        traced.append(Exchange(down, reply.up, dict(reply.info)))
    return tuple(traced)


def one_of(shards: Shard) -> Shard:
    """The abstract shard of any one of stacked clients."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), shards)


def message_bytes(shapes: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def round_bytes(algorithm: Algorithm, problem: Problem, shards: Shard) -> tuple[int, int]:
    """What one client sends up and gets down in a round, metrics left out."""
    traced = messages(algorithm, problem, one_of(shards))
    up, down = ([getattr(exchange, way) for exchange in traced] for way in ("up", "down"))
    return message_bytes(up), message_bytes(down)
