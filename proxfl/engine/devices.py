"""The clients of a simulation over several devices, by JAX's own sharding.

Algorithms and engine do not notice: clients work side by side, and the weighted sum of their
uplinks is the one thing that crosses between devices in a round.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.core
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from proxfl.problem import Shard
from proxfl.problem.sparse import is_sparse

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
    mesh = Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))
    where = NamedSharding(mesh, PartitionSpec(AXIS))
    return jax.tree.map(lambda a: jax.device_put(a, where), in_program(shards))


def in_program(shards: Shard) -> Shard:
    """Sparse products stay in the program: a trip to the host would gather all clients there."""
    stay = lambda part: replace(part, host=None) if is_sparse(part) else part
    return shards._replace(examples=jax.tree.map(stay, shards.examples, is_leaf=is_sparse))


def alongside(shards: Shard, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`make`, which stacks something over clients, leaving the result where the shards are."""
    where = None if isinstance(shards.size, jax.core.Tracer) else shards.size.sharding
    return jax.jit(make, out_shardings=where) if isinstance(where, NamedSharding) else make
