"""Some of the clients at a time, so that memory for work in progress is that of one block."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from proxfl.engine.visit import weigh
from proxfl.points import Point
from proxfl.problem import Problem, Shard


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


def put(stacked: Any, members: Members, new: Any, after: Any) -> Any:
    """The stack with the rows of some clients replaced, once `after` has been computed."""
    if members is None:
        return new
    members = ordered_after(members, after)
    if isinstance(members, Window):
        paste = lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, members.first, 0)
        return jax.tree.map(paste, stacked, new)
    return jax.tree.map(lambda a, b: a.at[members].set(b), stacked, new)


def ordered_after(members: Any, results: Any) -> Members:
    """The same members, made to depend on the results, so that writing there comes after them.

    XLA updates the stacked states in place only if no read of them is still to come, and judges
    that by data dependencies alone. A new state that was computed without the old one depends on
    none of these reads, so XLA would copy all states, once per block. Adding a number that is
    always zero, which XLA cannot know, makes the dependency.
    """
    positive = jnp.array([jnp.sum(a.reshape(-1)[:1] > 0) for a in jax.tree.leaves(results)])
    zero = positive.sum() < 0
    later = lambda where: where + zero.astype(where.dtype)
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
    """Fold `carry = step(carry, some of the members)`, at most `block` clients at a time."""
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


def mean_gradient(problem: Problem, shards: Shard, x: Point, block: int | None = None) -> Point:
    """The full gradient of the smooth part at x."""
    return mean_over_clients(lambda shard: problem.objective(shard).full_grad(x), shards, block)
