"""A million clients on one GPU: the time of a round from 1,000 of them on, in blocks.

Each has 8 dense rows of 256 features, made on the device; logistic loss, l1, tau = 2, float32.
"""

from typing import Any

import jax
import jax.numpy as jnp

import proxfl as px
from benchmarks.clients import curve
from proxfl.losses import Logistic
from proxfl.problem import Shard
from proxfl.prox import L1

COUNTS = (1_000, 10_000, 100_000, 1_000_000)
ROWS, FEATURES, BLOCK = 8, 256, 10_000


def drawn(clients: int) -> Shard:
    key, sign = jax.random.split(jax.random.key(0))
    features = jax.random.normal(key, (clients, ROWS, FEATURES), jnp.float32)
    labels = jnp.where(jax.random.bernoulli(sign, shape=(clients, ROWS)), 1, -1).astype(jnp.float32)
    size, weight = jnp.full(clients, ROWS, jnp.int32), jnp.full(clients, 1 / clients, jnp.float32)
    return Shard((features, labels), size, weight)


def run() -> dict[str, Any]:
    problem = px.Problem(loss=Logistic(), g=L1(1e-4), x0=jnp.zeros(FEATURES, jnp.float32))
    points = curve(problem, drawn, COUNTS, BLOCK)
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
