"""What every engine shares: one client's visit, the mean of the replies, keys, message shapes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from proxfl.core import Algorithm, Received, Reply, expand
from proxfl.points import Point, Scalar
from proxfl.problem.shards import Problem, Shard


def round_key(key: PRNGKeyArray, *place: Any) -> PRNGKeyArray:
    """The key that belongs to a place, such as (round, exchange, client).

    It depends on the place alone, so a resumed, reordered or deployed run draws the same.
    """
    for part in place:
        key = jax.random.fold_in(key, part)
    return key


@partial(jax.jit, static_argnames="exchange")
def visit(
    algorithm: Algorithm,
    problem: Problem,
    shard: Shard,
    state: Any,
    down: Any,
    key: PRNGKeyArray,
    *,
    exchange: int = 0,
) -> Reply:
    """One client's part of one exchange."""
    f = problem.objective(shard)
    return algorithm.exchanges()[exchange].client(f, problem.g, state, down, key)


def weigh(ups: Any, weights: Float[Array, " clients"]) -> tuple[Any, Scalar]:
    """The weighted sum of stacked uplinks, written out, and the weight behind it."""
    total = jax.tree.map(lambda a: jnp.tensordot(weights, a, axes=1), jax.vmap(expand)(ups))
    return total, weights.sum()


def combine(ups: Any, weights: Float[Array, " clients"], key: PRNGKeyArray) -> Received:
    """What the server sees of stacked uplinks: their weighted mean."""
    total, share = weigh(ups, weights)
    return Received(jax.tree.map(lambda a: a / share, total), share, key)


class Window(NamedTuple):
    """Clients one after the other: reading and writing them moves no others."""

    first: Any
    size: int


# Some of the clients: by number, as a window, or everyone, in order, which copies nothing.
Members = Int[Array, " some"] | Window | None


def numbers(members: Members, clients: int) -> Int[Array, " some"]:
    if isinstance(members, Window):
        return members.first + jnp.arange(members.size)
    return jnp.arange(clients) if members is None else members


def select(stacked: Any, members: Members) -> Any:
    """The rows of some clients."""
    if members is None:
        return stacked
    if isinstance(members, Window):
        cut = lambda a: jax.lax.dynamic_slice_in_dim(a, *members)
        return jax.tree.map(cut, stacked)
    return jax.tree.map(lambda a: a[members], stacked)


def put(stacked: Any, members: Members, new: Any) -> Any:
    """The stack with the rows of some clients replaced."""
    if members is None:
        return new
    if isinstance(members, Window):
        paste = lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, members.first, 0)
        return jax.tree.map(paste, stacked, new)
    return jax.tree.map(lambda a, b: a.at[members].set(b), stacked, new)


def once_known(members: Members, results: Any) -> Members:
    """The same members, known only when the results are.

    XLA writes a block of states in place only if every read of the states comes before, and goes by
    what depends on what. A new state that needs nothing of the old one would be written to a copy
    of all states, once per block. What is never true here, XLA cannot know.
    """
    if members is None:
        return None
    positive = jnp.array([jnp.sum(a.reshape(-1)[:1] > 0) for a in jax.tree.leaves(results)])
    never = positive.sum() < 0
    later = lambda where: where + never.astype(where.dtype)
    if isinstance(members, Window):
        return Window(later(jnp.asarray(members.first)), members.size)
    return later(members)


def in_blocks(
    step: Callable[[Any, Members], Any],
    carry: Any,
    members: Int[Array, " some"] | None,
    clients: int,
    block: int | None,
) -> Any:
    """Fold `carry = step(carry, some of the members)`, at most `block` clients at a time.

    Memory for what a client computes on the way is then that of one block.
    """
    if block is None or block >= clients:
        return step(carry, members)
    full, rest = divmod(clients, block)

    def part(first, count):
        if members is None:
            return Window(first, count)
        return jax.lax.dynamic_slice_in_dim(members, first, count)

    one_block = lambda b, carry: step(carry, part(b * block, block))
    carry = jax.lax.fori_loop(0, full, one_block, carry)
    return step(carry, part(full * block, rest)) if rest else carry


def mean_over_clients(
    quantity: Callable[[Shard], Point], shards: Shard, block: int | None = None
) -> Point:
    """The weighted mean over all clients of something each computes from its own shard."""
    one = jax.tree.map(lambda a: a[0], shards)
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(quantity, one))

    def add(total, members):
        mine = select(shards, members)
        part, _ = weigh(jax.vmap(quantity)(mine), mine.weight)
        return jax.tree.map(jnp.add, total, part)

    return in_blocks(add, zero, None, shards.size.shape[0], block)


class Exchange(NamedTuple):
    """The abstract shapes of the two messages of one exchange, per client."""

    down: Any
    up: Any


def messages(algorithm: Algorithm, problem: Problem, shards: Shard) -> tuple[Exchange, ...]:
    """The wire format of one round, traced from the algorithm itself and never declared."""
    shard = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), shards)
    server, state = jax.eval_shape(algorithm.init, problem.g, problem.x0)
    traced = []
    for e, exchange in enumerate(algorithm.exchanges()):
        down = jax.eval_shape(exchange.broadcast, problem.g, server)
        ask = partial(visit, exchange=e)
        reply = jax.eval_shape(ask, algorithm, problem, shard, state, down, jax.random.key(0))
        traced.append(Exchange(down, reply.up))
    return tuple(traced)


def message_bytes(shapes: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
