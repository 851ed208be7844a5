"""Many clients: the time of a round from 10 to 10,000 of them, in the memory of a block at a time.

Each has 20 sparse rows of 50 entries; the model has 10,000 coordinates. A client of Algorithm 1
keeps two vectors: where it last started and its mean gradient there. Both are needed to learn its
correction from the broadcast alone: the first is the same at all clients while all take part, but a
client cannot know it once the broadcast is gone. All else lives for one block only.
"""

import resource
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from benchmarks.side import seconds
from benchmarks.sparse import sites
from proxfl.engine.round import simulated_round, start
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.problem import Shard
from proxfl.prox import L1

COUNTS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
ROWS, FEATURES, ENTRIES, BLOCK = 20, 10_000, 50, 10


def curve(
    problem: px.Problem, drawn: Callable[[int], Shard], counts: tuple[int, ...], block: int
) -> list[dict[str, float]]:
    """The median seconds of a round of Algorithm 1 for each number of clients."""
    problem, algorithm = jax.tree.map(jnp.asarray, (problem, px.Decoupled(0.05, 1.0, 2)))

    def step(shards, run):
        return simulated_round(algorithm, problem, shards, run, block=block)[0]

    advance, points = jax.jit(step, donate_argnums=1), []
    for count in counts:
        shards = drawn(count)
        held = [start(algorithm, problem, shards)]

        def go(held=held, shards=shards):
            held.append(jax.block_until_ready(advance(shards, held.pop())))

        go()  # compiles
        taken = [seconds(go) for _ in range(max(5, counts[-1] // count // 10))]
        points.append({"clients": count, "seconds": float(np.median(taken))})
        del held, go, shards
    return points


def run() -> dict[str, Any]:
    problem = px.Problem(loss=Logistic(), g=L1(1e-4), x0=np.zeros(FEATURES))
    with precision(np.float64):
        drawn = lambda count: px.shards_of(sites(count, ROWS, FEATURES, ENTRIES))
        points = curve(problem, drawn, COUNTS, BLOCK)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    counts, taken = np.array([list(point.values()) for point in points]).T
    return {
        "what": "a round (tau = 2) of clients with 20 sparse rows each and 10,000 coordinates",
        "points": points,
        "block": BLOCK,
        "exponent": float(np.polyfit(np.log(counts), np.log(taken), 1)[0]),
        "model": model(counts, taken, peak),
    }


def model(counts: np.ndarray, taken: np.ndarray, peak: float) -> dict[str, float]:
    """Time and memory as docs/scale.md predicts them, against what was seen, and for a million."""
    visit = float(np.median(taken / counts))
    rows = ROWS * ENTRIES * (8 + 4 + 4)  # a value, its column and its row
    held = lambda n: n * (2 * FEATURES * 8 + rows)
    return {
        "seconds per client": visit,
        "largest error of a point": float(np.max(np.abs(taken / (visit * counts) - 1))),
        "bytes predicted": held(COUNTS[-1]),
        "bytes at the peak, all of Python included": peak,
        "seconds for a million clients": visit * 1e6,
        "bytes for a million clients": held(1e6),
    }
