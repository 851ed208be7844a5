"""A sweep of steps as one program, against the same runs one after the other, compiled once.

Figure 1's problem; every run has its own eta. Both sides must end at the same models.
"""

from typing import Any

import jax
import numpy as np

import proxfl as px
from benchmarks.side import interleaved, seconds
from proxfl.data import Scaling, synthetic
from proxfl.engine.measure import Nonzeros
from proxfl.engine.sweep import sweep
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.prox import L1


def run(repeats: int = 3, rounds: int = 200) -> dict[str, Any]:
    count = 64 if jax.default_backend() == "cpu" else 256
    data = synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=0.005), seed=0)
    problem = px.Problem(loss=Logistic(), g=L1(0.003), x0=np.zeros(20))
    with precision(np.float64):
        shards = px.shards_of(data.sites)
    algorithms = [px.Decoupled(eta, 5.0, 10) for eta in np.geomspace(0.1, 4.0, count)]
    observe = {"nonzeros": Nonzeros()}
    watch = dict(rounds=rounds, every=rounds, observe=observe, progress=False)
    together = lambda: sweep(algorithms, problem, shards, **watch)
    in_turn = lambda: [px.simulate(a, problem, shards, **watch).model for a in algorithms]
    first = seconds(together)
    np.testing.assert_allclose(together().models, in_turn(), atol=1e-8)
    return {
        "what": f"{count} step sizes, {rounds} rounds each, of Figure 1's problem",
        "first call, which compiles, in seconds": first,
        "times": interleaved({"one program": together, "one after another": in_turn}, repeats),
    }
