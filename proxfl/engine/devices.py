"""The clients of a simulation over several devices, by JAX's own sharding, and over processes.

Algorithms and engine do not notice: clients work side by side, and the weighted sum of their
uplinks is the one thing that crosses between devices in a round. Where `jax.distributed` runs,
every process holds its own clients and runs the same program.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all, process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from proxfl.problem import Shard, client_weights, stack
from proxfl.problem.shards import rows_of
from proxfl.problem.sparse import is_sparse
from proxfl.storage.checkpoint import plain

AXIS = "clients"


def spread(shards: Shard, devices: Sequence[Any] | None = None) -> Shard:
    """The shards, an equal number of clients on each device; by default on all there are."""
    devices = jax.devices() if devices is None else list(devices)
    clients = shards.size.shape[0]
    if clients % len(devices):
        raise ValueError(
            f"{clients} clients cannot be spread evenly over {len(devices)} devices; "
            "give a number of devices that divides them."
        )
    where = by_clients(devices)
    return jax.tree.map(lambda a: jax.device_put(a, where), in_program(shards))


def by_clients(devices: Sequence[Any]) -> NamedSharding:
    mesh = Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))
    return NamedSharding(mesh, PartitionSpec(AXIS))


def spread_own(
    sites: Sequence[Any], weights: str | Sequence[float] = "uniform", dtype: Any = np.float64
) -> Shard:
    """This process's clients as its part of one federation over the devices of all processes.

    Every process calls this with its own sites, the same number in each; clients are in the order
    of processes. Rows stay in their process: what the others learn is how many there are. Weights
    are as for `shards_of`; numbers are those of this process's clients.
    """
    everyone = lambda own: np.asarray(process_allgather(np.asarray(own))).reshape(-1)
    counts, here = everyone([len(sites)]), len(jax.local_devices())
    if len(set(counts.tolist())) > 1 or len(sites) % here or not sites:
        raise ValueError(
            f"The processes hold {', '.join(map(str, counts))} clients; give each the same number, "
            f"a multiple of its {here} devices."
        )
    sizes = [rows_of(site, i) for i, site in enumerate(sites)]
    all_sizes = everyone(sizes).tolist()
    asked = weights if isinstance(weights, str) else everyone(np.asarray(weights, float)).tolist()
    first = jax.process_index() * len(sites)
    own = client_weights(asked, all_sizes)[first : first + len(sites)]
    shards = in_program(stack(sites, own, max(all_sizes), dtype))
    where = by_clients(jax.devices())
    join = lambda a: jax.make_array_from_process_local_data(where, np.asarray(a))
    return jax.tree.map(join, shards)


def own_part(tree: Any) -> Any:
    """What this process holds of a federation or a run: its own clients, and what all share."""
    return jax.tree.map(held_here, tree)


def held_here(a: Any) -> Any:
    if not isinstance(a, jax.Array) or isinstance(a, jax.core.Tracer) or a.is_fully_addressable:
        return a
    if a.is_fully_replicated:
        return a.addressable_data(0)
    parts = {part.index[0].start or 0: part.data for part in a.addressable_shards}
    return jnp.concatenate([jnp.asarray(np.asarray(parts[at])) for at in sorted(parts)])


def joined(part: Any, like: Any) -> Any:
    """The whole of which `part` is this process's, spread as `like` is.

    Refuses parts that do not belong together: processes at different rounds would wait for one
    another for ever.
    """
    parts, structure = jax.tree.flatten(part)
    where = [None if is_shared(b) else b.sharding for b in jax.tree.leaves(like)]
    shared = b"".join(plain(a).tobytes() for a, w in zip(parts, where, strict=True) if w is None)
    if len(set(process_allgather(np.uint32(zlib.crc32(shared))).tolist())) > 1:
        raise ValueError(
            "The parts that the processes hold are not of one run at one round; give each process "
            "what it saved after the same round as the others."
        )
    join = lambda a, w: jax.make_array_from_process_local_data(w, np.asarray(a)) if w else a
    return jax.tree.unflatten(structure, map(join, parts, where))


def is_shared(a: Any) -> bool:
    """Whether this process holds the whole of it."""
    return not isinstance(a, jax.Array) or a.is_fully_addressable or a.is_fully_replicated


def in_program(shards: Shard) -> Shard:
    """Sparse products stay in the program: a trip to the host would gather all clients there."""
    stay = lambda part: replace(part, host=None) if is_sparse(part) else part
    return shards._replace(examples=jax.tree.map(stay, shards.examples, is_leaf=is_sparse))


def agreed(shards: Shard, number: float) -> float:
    """A number that differs by process, such as a time, as the first process has it.

    Processes that share clients must call the same programs with the same arguments.
    """
    if isinstance(shards.size, jax.core.Tracer) or shards.size.is_fully_addressable:
        return number
    return float(broadcast_one_to_all(np.float32(number)))


def alongside(shards: Shard, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`make`, which stacks something over clients, leaving the result where the shards are."""
    where = None if isinstance(shards.size, jax.core.Tracer) else shards.size.sharding
    return jax.jit(make, out_shardings=where) if isinstance(where, NamedSharding) else make
