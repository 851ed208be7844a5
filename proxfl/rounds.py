"""A run and its rounds: the whole federation as one pure function of one pytree."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from proxfl.core import Algorithm, Received, expand
from proxfl.engine.devices import alongside
from proxfl.engine.blocks import in_blocks, numbers, once_known, put, round_key, select, visit, weigh
from proxfl.points import Scalar
from proxfl.problem.shards import Problem, Shard

# The place in a round that belongs to no exchange: which clients take part is drawn here.
ROLL_CALL = 2**31 - 1


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


def one_round(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    run: Run,
    cohort: int | None = None,
    block: int | None = None,
) -> tuple[Run, dict[str, Scalar]]:
    """All exchanges of one round, and the clients' mean metrics; who sits out keeps its state."""
    server, clients, info = run.server, run.clients, {}
    who = None if cohort is None else choose(run, shards.size.shape[0], cohort)
    for e, exchange in enumerate(algorithm.exchanges()):
        key = round_key(run.key, run.round, e)
        down = exchange.broadcast(problem.g, server)
        clients, received, seen = ask_clients(
            algorithm, problem, shards, clients, down, key, who, e, block
        )
        server = exchange.server(problem.g, server, received)
        info |= seen
    return Run(server, clients, run.round + 1, run.key), info


def choose(run: Run, clients: int, cohort: int) -> Int[Array, " cohort"]:
    """The clients of this round, uniformly without replacement, in order."""
    key = round_key(run.key, run.round, ROLL_CALL)
    return jnp.sort(jax.random.choice(key, clients, (cohort,), replace=False))


def ask_clients(
    algorithm: Algorithm,
    problem: Problem,
    shards: Shard,
    clients: Any,
    down: Any,
    key: PRNGKeyArray,
    who: Int[Array, " cohort"] | None,
    exchange: int,
    block: int | None,
) -> tuple[Any, Received, dict[str, Scalar]]:
    """Visit the clients `who`, in parallel, at most `block` at a time."""
    n = shards.size.shape[0]

    def ask(shard, state, i):
        return visit(algorithm, problem, shard, state, down, round_key(key, i), exchange=exchange)

    def gather(carry, members):
        clients, total, share = carry
        mine, states = select((shards, clients), members)
        reply = jax.vmap(ask)(mine, states, numbers(members, n))
        part, weight = weigh((reply.up, reply.info), mine.weight)
        total = jax.tree.map(jnp.add, total, part)
        clients = put(clients, once_known(members, total), reply.state)
        return clients, total, share + weight

    first = jax.tree.map(lambda a: a[0], (shards, clients))
    reply = jax.eval_shape(ask, *first, jnp.zeros((), jnp.int32))
    shapes = jax.eval_shape(expand, (reply.up, reply.info))
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    carry = clients, nothing, jnp.zeros((), shards.weight.dtype)
    asked = n if who is None else who.shape[0]
    clients, total, share = in_blocks(gather, carry, who, asked, block)
    mean, info = jax.tree.map(lambda a: a / share, total)
    return clients, Received(mean, share, round_key(key, n)), info


def unseen(algorithm: Algorithm, problem: Problem, shards: Shard, run: Run) -> dict[str, Scalar]:
    """The clients' metrics before any round: not a number."""
    step = lambda run: one_round(algorithm, problem, shards, run)[1]
    return {
        name: jnp.full(a.shape, jnp.nan, a.dtype) for name, a in jax.eval_shape(step, run).items()
    }


def finite(run: Run) -> Array:
    """Whether the server's state is still made of numbers."""
    floats = [a for a in jax.tree.leaves(run.server) if jnp.issubdtype(a.dtype, jnp.inexact)]
    return jnp.all(jnp.array([jnp.isfinite(a).all() for a in floats]))
