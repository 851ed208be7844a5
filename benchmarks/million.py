"""A million clients on one GPU: the time of a round from 1,000 of them on, in blocks.

Each has 8 dense rows of 256 features, made on the device; logistic loss, l1, tau = 2, float32.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from benchmarks.side import seconds
from proxfl.losses import Logistic
from proxfl.problem import Shard
from proxfl.prox import L1
from proxfl.rounds import one_round, start

COUNTS = (1_000, 10_000, 100_000, 1_000_000)
ROWS, FEATURES, BLOCK, REPEATS = 8, 256, 10_000, 10


def drawn(clients: int) -> Shard:
    key, sign = jax.random.split(jax.random.key(0))
    features = jax.random.normal(key, (clients, ROWS, FEATURES), jnp.float32)
    labels = jnp.where(jax.random.bernoulli(sign, shape=(clients, ROWS)), 1, -1).astype(jnp.float32)
    size, weight = jnp.full(clients, ROWS, jnp.int32), jnp.full(clients, 1 / clients, jnp.float32)
    return Shard((features, labels), size, weight)


def run() -> dict[str, Any]:
    problem = px.Problem(loss=Logistic(), g=L1(1e-4), x0=jnp.zeros(FEATURES, jnp.float32))
    algorithm = px.Decoupled(0.05, 1.0, 2)
    problem, algorithm = jax.tree.map(jnp.asarray, (problem, algorithm))

    def step(shards, run):
        return one_round(algorithm, problem, shards, run, block=BLOCK)[0]

    advance, points = jax.jit(step, donate_argnums=1), []
    for count in COUNTS:
        shards = drawn(count)
        held = [start(algorithm, problem, shards)]

        def go(held=held, shards=shards):
            held.append(jax.block_until_ready(advance(shards, held.pop())))

        go()  # compiles
        taken = float(np.median([seconds(go) for _ in range(REPEATS)]))
        points.append({"clients": count, "seconds": taken})
    held_now = jax.devices()[0].memory_stats() or {}
    visit = points[-2]["seconds"] / points[-2]["clients"]
    return {
        "what": "a round (tau = 2) of clients with 8 dense rows each and 256 coordinates",
        "points": points,
        "block": BLOCK,
        "model": {
            "seconds per client at 100,000": visit,
            "a million, measured over predicted": points[-1]["seconds"] / (visit * COUNTS[-1]),
            "bytes predicted for a million": COUNTS[-1] * 4 * FEATURES * (2 + ROWS),
            "bytes at the peak": held_now.get("peak_bytes_in_use", 0),
        },
    }
