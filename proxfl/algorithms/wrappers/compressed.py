"""Wrapper: compressed uplinks with error feedback, around any method.

    message = C(up + owed),    owed <- up + owed - message,

so that nothing is lost, only late. The server averages the messages written out.

Around Algorithm 1 this is the idea of FedCEF. Whether the limit is exact depends on the uplink
(measured in tests/algorithms/test_wrappers.py). Where it fades as the method converges, so does
what is owed, and the limit is exact: `DecoupledPartial`, with which this is EF21 (Richtarik et al.
2021) around Algorithm 1, FedDR, FedADMM and FedSplit, whose clients send changes. The uplink of
`Decoupled`, ProxSkip or Mime is a gradient, which does not fade where clients differ: they stop at
a distance of the order of eta from the solution. Two vectors of one message share the k coordinates
or the unit, which has made Scaffold diverge under strong compression.

To combine it with privacy, compress what is private already: Compressed(Private(...)), with the
noise added at the client. Noise at the server would not cover what is owed, and is refused.
"""

from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp

from proxfl.algorithms.wrappers.compressors import Compressor
from proxfl.algorithms.wrappers.private import Private
from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Compact, Objective, Regulariser, Reply
from proxfl.points import norm
from proxfl.pytree import pytree, static

COMPRESS = 2**31 - 3  # folded into a key the inner method uses as well; see private.NOISE


@pytree
class Packed(Compact):
    """A compressed vector, and the shape of the message it stands for, which is not sent."""

    vector: Any
    unravel: Any = static()

    def expand(self):
        return self.unravel(self.vector.expand())


class Indebted(NamedTuple):
    """A client's own state, and what it still owes the server in each exchange of a round."""

    inner: Any
    owed: tuple[Any, ...]


@pytree
class Compressed(Wrapper):
    """Any method, its uplinks made small by `how`."""

    inner: Any
    how: Compressor
    exchange: int = static(default=0)  # which of the inner method's exchanges this is

    def exchanges(self):
        inner = enumerate(self.inner.exchanges())
        return tuple(Compressed(one, self.how, e) for e, one in inner)

    def init(self, g, x0):
        if isinstance(self.inner, Private) and self.inner.at == "server":
            raise ValueError(
                "Noise at the server does not cover what error feedback adds to a message; "
                'use Private(..., at="client") inside Compressed.'
            )
        server, state = self.inner.init(g, x0)
        shapes = [uplink(one, g, server, state) for one in self.inner.exchanges()]
        owed = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), tuple(shapes))
        return server, Indebted(state, owed)

    def client(self, f: Objective, g: Regulariser, state: Indebted, down: Any, key):
        reply = self.inner.client(f, g, state.inner, down, key)
        wanted = jax.tree.map(jnp.add, reply.up, state.owed[self.exchange])
        flat, unravel = jax.flatten_util.ravel_pytree(wanted)
        vector = self.how.compress(flat, jax.random.fold_in(key, COMPRESS))
        owed = list(state.owed)
        owed[self.exchange] = unravel(flat - vector.expand())
        return Reply(Indebted(reply.state, tuple(owed)), Packed(vector, unravel), reply.info)


def uplink(exchange: Any, g: Regulariser, server: Any, state: Any) -> Any:
    """The abstract shape of what a client sends in one exchange, whatever its data."""
    anything = Objective(grad=lambda x, key: x, full_grad=lambda x: x, value=norm)

    def ask(server, state, key):
        return exchange.client(anything, g, state, exchange.broadcast(g, server), key).up

    return jax.eval_shape(ask, server, state, jax.random.key(0))
