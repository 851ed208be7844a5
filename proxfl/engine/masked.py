"""Rounds as a federation under masks makes them, in one process.

The server sees the sum over clients in fixed point, and nothing else; clients see what is sent on
a grid. Clients are visited one by one, by the functions of a deployed run: so the two come to the
same bits, as one program for all clients need not.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Algorithm, Received, is_compact
from proxfl.engine import fixed_point, grid
from proxfl.engine.messages import messages, one_of
from proxfl.engine.round import Run, compiled_exchanges, finite, one_round
from proxfl.engine.visit import round_key, visit
from proxfl.points import Scalar, dtype
from proxfl.problem import Problem, Shard
from proxfl.problem.sparse import is_sparse


def refuse(algorithm: Algorithm, problem: Problem, shards: Shard, cohort: int | None) -> None:
    """Refuse what cannot be had from sums over all clients and all of their rows."""
    if cohort is not None or problem.batch is not None:
        raise ValueError(
            "masked=True needs all clients and all of their rows in every exchange, since only "
            "the sum of all shows anything; leave out cohort and batch."
        )
    if algorithm.client_noise:
        raise ValueError(
            f"{type(algorithm).__name__} adds noise to each client's answer, and masks hide each; "
            "give the noise to the sum, at the server, or leave masked=True out."
        )
    if isinstance(shards.size, jax.Array) and len(shards.size.sharding.device_set) > 1:
        raise ValueError(
            "masked=True visits the clients one by one, in one process on one device, as real "
            "sites answer; give it shards that are not spread."
        )
    if dtype(problem.x0) != np.float64:
        raise ValueError(
            f"masked=True adds in fixed point, which is for double precision, got an x0 of "
            f"{dtype(problem.x0)}; give it as float64."
        )
    sent = [shape.up for shape in messages(algorithm, problem, one_of(shards))]
    if any(is_compact(part) for part in jax.tree.leaves(sent, is_leaf=is_compact)):
        raise ValueError(
            f"{type(algorithm).__name__} compresses, and masked messages are uniform bytes, which "
            "nothing makes shorter; leave out the compression."
        )


class Apart(NamedTuple):
    """The clients' shards, each with its own rows alone as its site has them, and how much each
    client counts in a sum."""

    shards: Sequence[Shard]
    mass: np.ndarray


def rounds(
    algorithm: Algorithm,
    problem: Problem,
    sites: Apart,
    run: Run,
    info: dict[str, Scalar],
    times: int,
) -> tuple[Run, dict[str, Scalar]]:
    """The run after so many rounds, or after one that left it not finite, and the last metrics."""
    for _ in range(times):
        run, info = masked_round(algorithm, problem, sites, run)
        if not finite(run):
            break
    return run, info


def masked_round(
    algorithm: Algorithm, problem: Problem, sites: Apart, run: Run
) -> tuple[Run, dict[str, Scalar]]:
    """The run after one more round, and the clients' mean metrics."""
    about = (on_grid(algorithm), problem, sites, round_key(run.key, run.round))
    exchanges, before = compiled_exchanges(algorithm), (run.server, run.clients)
    after = one_round(exchanges, problem.g, *before, partial(ask_in_sums, *about))
    server, clients, info = after
    return Run(server, clients, run.round + 1, run.key), info


def ask_in_sums(
    algorithm: Algorithm,
    problem: Problem,
    sites: Apart,
    key: Any,
    clients: Any,
    down: Any,
    exchange: int,
) -> tuple[Any, Received, dict[str, Scalar]]:
    """Visit the clients one after the other, and add what they say."""
    key, down, replies = round_key(key, exchange), on_grid(down), []
    for i, shard in enumerate(sites.shards):
        state, place = jax.tree.map(lambda a, i=i: a[i], clients), round_key(key, i)
        replies.append(visit(algorithm, problem, shard, state, down, place, exchange=exchange))
    answers = [(reply.up, dict(reply.info)) for reply in replies]
    said = [in_sum(answer, float(m)) for answer, m in zip(answers, sites.mass, strict=True)]
    mass = float(total([*sites.mass[:, None]])[0])
    up, info = means(total(said), answers[0], mass, len(replies))
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *(reply.state for reply in replies))
    return stacked, Received(up, jnp.ones(()), round_key(key, len(replies))), info


def total(said: Sequence[np.ndarray]) -> np.ndarray:
    """The sum in fixed point; not numbers, if one of them is none."""
    if not all(np.isfinite(values).all() for values in said):
        return np.full_like(said[0], np.nan)
    largest = max(float(np.abs(values).max(initial=0.0)) for values in said)
    if not fixed_point.fits(largest):
        raise OverflowError(
            f"A client adds {largest:.2g} to a sum, and fixed point has room for "
            f"{fixed_point.LIMIT:.2g}: the run diverges, which a smaller step mends, or data are "
            "that large; scale them, or leave masked=True out."
        )
    words = np.zeros((len(said[0]), 2), np.uint64)
    for values in said:
        words = fixed_point.add(words, fixed_point.encode(values))
    return fixed_point.decode(words)


def on_grid(tree: Any) -> Any:
    """Numbers as they are sent."""
    return jax.tree.map(lambda leaf: grid.sent(np.asarray(leaf)), tree)


def in_sum(answer: Any, mass: float) -> np.ndarray:
    """A site's means as what they add to the sum of all; a truth counts as one."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(answer)]
    weigh = lambda leaf: leaf * (1.0 if leaf.dtype == bool else mass)
    return np.concatenate([np.ravel(weigh(leaf)).astype(float) for leaf in leaves])


def means(total: np.ndarray, shape: Any, mass: float, members: int) -> Any:
    """The answer that one site with all rows would have given; true if all said so."""
    leaves, tree = jax.tree.flatten(shape)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    made = [
        jnp.asarray(part.reshape(leaf.shape) == members)
        if leaf.dtype == bool
        else jnp.asarray(part.reshape(leaf.shape) / mass)
        for part, leaf in zip(np.split(total, ends), leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, made)


def apart(shards: Shard, mass: np.ndarray) -> Apart:
    found = []
    for i, rows in enumerate(np.asarray(shards.size).tolist()):
        one: Shard = jax.tree.map(lambda a, i=i: a[i], shards)
        own = lambda part, rows=rows: part if is_sparse(part) else part[:rows]
        counts = None if one.counts is None else one.counts[:rows]
        examples = jax.tree.map(own, one.examples, is_leaf=is_sparse)
        found.append(one._replace(examples=examples, counts=counts))
    return Apart(found, mass)
