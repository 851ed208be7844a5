"""Many clients: the time of a round from 10 to 10,000 of them, in the memory of a block at a time.

Each has 20 sparse rows of 50 entries; the model has 10,000 coordinates. A client of Algorithm 1
keeps two vectors: where it last started and its mean gradient there. Both are needed to learn its
correction from the broadcast alone: the first is the same at all clients while all take part, but a
client cannot know it once the broadcast is gone. All else lives for one block only.
"""

import resource
from typing import Any

import jax
import numpy as np

import proxfl as px
from benchmarks.side import seconds
from benchmarks.sparse import sites
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.prox import L1
from proxfl.rounds import one_round, start

COUNTS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
ROWS, FEATURES, ENTRIES, BLOCK, ROUNDS = 20, 10_000, 50, 10, 3


def run() -> dict[str, Any]:
    problem = px.Problem(loss=Logistic(), g=L1(1e-4), x0=np.zeros(FEATURES))
    algorithm = px.Decoupled(0.5, 1.0, 2)
    points = []
    with precision(np.float64):
        problem = jax.tree.map(jax.numpy.asarray, problem)

        def step(shards, run):
            return one_round(algorithm, problem, shards, run, block=BLOCK)[0]

        advance = jax.jit(step, donate_argnums=1)
        for count in COUNTS:
            shards = px.shards_of(sites(count, ROWS, FEATURES, ENTRIES))
            fresh = jax.tree.map(jax.numpy.copy, start(algorithm, problem, shards))
            run = advance(shards, fresh)  # which it consumes
            jax.block_until_ready(run)
            taken = []
            for _ in range(ROUNDS):
                holder = {"run": run}

                def go(holder=holder, shards=shards):
                    holder["run"] = jax.block_until_ready(advance(shards, holder.pop("run")))

                taken.append(seconds(go))
                run = holder["run"]
            points.append({"clients": count, "seconds": float(np.median(taken))})
            del run, fresh, shards
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # The slope from 100 clients on: below, a round costs little more than its start.
    large = [p for p in points if p["clients"] >= 100]
    slope = np.polyfit(*np.log([[p["clients"] for p in large], [p["seconds"] for p in large]]), 1)
    state = 2 * COUNTS[-1] * FEATURES * 8
    return {
        "what": "a round (tau = 2) of clients with 20 sparse rows each and 10,000 coordinates",
        "points": points,
        "exponent": float(slope[0]),
        "peak_bytes": peak,
        "client_state_bytes": state,
        "block": BLOCK,
    }
