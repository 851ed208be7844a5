"""A round: for each of its exchanges, broadcast, ask the clients, let the server step.

Methods run through `one_round`, whoever asks the clients: a compiled program, or a driver over a
network. Only the adaptive solver, which decides in a round whether it counts, steps on its own.
`simulated_round` is the whole federation as one pure function of one pytree.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from proxfl.core import Algorithm, Received, Regulariser, expand
from proxfl.engine.blocks import in_blocks, numbers, put, select
from proxfl.engine.devices import alongside
from proxfl.engine.visit import received, round_key, visit, weigh
from proxfl.points import Scalar
from proxfl.problem import Problem, Shard
from proxfl.pytree import pytree, static

# The place in a round that belongs to no exchange: which clients take part is drawn here.
ROLL_CALL = 2**31 - 1


# From what stands for the clients' states, a message down and the number of the exchange: what
# stands for them afterwards, what the server received, and the clients' mean metrics.
Ask = Callable[[Any, Any, int], tuple[Any, Received, dict[str, Scalar]]]


def one_round(
    exchanges: Sequence[Any], g: Regulariser, server: Any, clients: Any, ask: Ask
) -> tuple[Any, Any, dict[str, Scalar]]:
    """The server, the clients and their metrics after the exchanges of a round."""
    info: dict[str, Scalar] = {}
    for e, exchange in enumerate(exchanges):
        clients, received, seen = ask(clients, exchange.broadcast(g, server), e)
        server, info = exchange.server(g, server, received), info | seen
    return server, clients, info


@pytree
class CompiledExchange:
    """The server's part of one exchange, for a server whose clients are not in its program."""

    algorithm: Algorithm
    e: int = static(default=0)

    @jax.jit
    def broadcast(self, g: Regulariser, server: Any) -> Any:
        return self.algorithm.exchanges()[self.e].broadcast(g, server)

    @jax.jit
    def server(self, g: Regulariser, server: Any, received: Received) -> Any:
        return self.algorithm.exchanges()[self.e].server(g, server, received)


def compiled_exchanges(algorithm: Algorithm) -> list[CompiledExchange]:
    return [CompiledExchange(algorithm, e) for e in range(len(algorithm.exchanges()))]


class Run(NamedTuple):
    """Everything a run is: saving it is the checkpoint, and going on from it is the resumption."""

    server: Any
    clients: Any  # stacked on the first axis
    round: Int[Array, ""]
    key: PRNGKeyArray


def start(algorithm: Algorithm, problem: Problem, shards: Shard, seed: Any = 0) -> Run:
    """The run before its first round; its arrays are its own, so a program may consume them."""
    clients = shards.size.shape[0]
    server, state = jax.tree.map(jnp.array, algorithm.init(problem.g, problem.x0))
    repeat = partial(jax.tree.map, lambda a: jnp.broadcast_to(a, (clients, *a.shape)))
    stacked = alongside(shards, repeat)(state)
    return Run(server, stacked, jnp.zeros((), jnp.int32), jax.random.key(seed))


@partial(jax.jit, static_argnames=("cohort", "block"), inline=True)
def simulated_round(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    run: Run,
    cohort: int | None = None,
    block: int | None = None,
) -> tuple[Run, dict[str, Scalar]]:
    """The run after one more round, and the clients' mean metrics; who sits out keeps its state."""
    who = None if cohort is None else draw_cohort(run.key, run.round, shards.size.shape[0], cohort)
    place = {"key": round_key(run.key, run.round), "who": who, "block": block}
    ask = partial(ask_clients, algorithm, problem, shards, **place)
    states = run.server, run.clients
    server, clients, info = one_round(algorithm.exchanges(), problem.g, *states, ask)
    return Run(server, clients, run.round + 1, run.key), info


def draw_cohort(key: PRNGKeyArray, round_: Any, clients: int, cohort: int) -> Int[Array, " cohort"]:
    """The clients of a round, uniformly without replacement, in order."""
    place = round_key(key, round_, ROLL_CALL)
    return jnp.sort(jax.random.choice(place, clients, (cohort,), replace=False))


def ask_clients(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    clients: Any,
    down: Any,
    exchange: int = 0,
    *,
    key: PRNGKeyArray,
    who: Int[Array, " cohort"] | None = None,
    block: int | None = None,
) -> tuple[Any, Received, dict[str, Scalar]]:
    """Visit the clients `who`, or all, in parallel, at most `block` at a time.

    The key is that of the round.
    """
    n, key = shards.size.shape[0], round_key(key, exchange)
    ask = partial(visit, algorithm, problem, exchange=exchange)

    def gather(carry, members):
        clients, so_far = carry
        mine, states = select((shards, clients), members)
        keys = jax.vmap(partial(round_key, key))(numbers(members, n))
        reply = jax.vmap(ask, in_axes=(0, 0, None, 0))(mine, states, down, keys)
        total = jax.tree.map(jnp.add, so_far, weigh((reply.up, reply.info), mine.weight))
        return put(clients, members, reply.state, after=total[0]), total

    first = jax.tree.map(lambda a: a[0], (shards, clients))
    reply = jax.eval_shape(ask, *first, down, key)
    shapes = jax.eval_shape(expand, (reply.up, reply.info)), shards.weight[0]
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    asked = n if who is None else who.shape[0]
    clients, (total, share) = in_blocks(gather, (clients, nothing), who, asked, block)
    return clients, *received(total, share, round_key(key, n))


def no_metrics(step: Callable[[Run], tuple[Run, dict[str, Scalar]]], run: Run) -> dict[str, Scalar]:
    """The clients' metrics before any round: not a number."""
    _, shapes = jax.eval_shape(step, run)
    return {name: jnp.full(a.shape, jnp.nan, a.dtype) for name, a in shapes.items()}


def finite(run: Run) -> Array:
    """Whether the server's state is still made of numbers."""
    floats = [a for a in jax.tree.leaves(run.server) if jnp.issubdtype(a.dtype, jnp.inexact)]
    return jnp.all(jnp.array([jnp.isfinite(a).all() for a in floats]))
