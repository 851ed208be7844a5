"""What stands in the way of a round on a CPU: its matrix products alone, beside the whole of it.

Nobody who computes these rounds does without their products, in the shapes of the local steps. If a
fraction of a peer's time is asked for, and the products take more, no way of writing the rest gets
there. Figures are the fastest of many short stretches by a processor's clock, which a machine that
does other things changes least; the network's may use both cores.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from benchmarks import cnn, figure1
from benchmarks.side import seconds
from proxfl.data import Scaling, synthetic
from proxfl.engine.round import simulated_round, start
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.prox import L1
from proxfl.research.cnn import KERNELS

ROUNDS = 20  # of Figure 1 at a time


def fastest(calls: dict[str, Callable[[], object]], work: int, repeats: int) -> dict[str, float]:
    taken = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            taken[name].append(seconds(call, time.process_time) / work)
    return {name: min(each) for name, each in taken.items()}


def loops(step: Callable[[Any, Any], Any], count: int) -> Callable[[Any, Any], Any]:
    """A step on a state, again and again in one program."""
    several = lambda given, z: jax.lax.fori_loop(0, count, lambda _, z: step(given, z), z)
    return jax.jit(several)


def of_figure1(repeats: int) -> dict[str, float]:
    data = synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=0.005), seed=0)
    A, y = (np.stack(part) for part in zip(*data.sites, strict=True))
    with precision(np.float64):
        shards = px.shards_of(data.sites)
        problem = px.Problem(loss=Logistic(), g=L1(figure1.THETA), x0=np.zeros(A.shape[2]))
        algorithm = px.Decoupled(figure1.ETA, figure1.ETA_G, figure1.TAU)
        problem, algorithm = jax.tree.map(jnp.asarray, (problem, algorithm))
        run, z = start(algorithm, problem, shards), jnp.zeros((len(A), A.shape[2]))
        round_of = lambda shards, run: simulated_round(algorithm, problem, shards, run)[0]
        out = lambda A, z: jnp.einsum("imd,id->im", A, z)
        back = lambda A, u: jnp.einsum("im,imd->id", u, A)
        slope = lambda A, z: back(A, -y / (1 + jnp.exp(y * out(A, z)))) / A.shape[1]
        steps, A = ROUNDS * figure1.TAU, jnp.asarray(A)
        programs = {
            "proxfl": (loops(round_of, ROUNDS), shards, run),
            "its gradients": (loops(lambda A, z: z - slope(A, z), steps), A, z),
            "its products": (loops(lambda A, z: z + 1e-9 * back(A, out(A, z)), steps), A, z),
        }
        calls = {
            name: lambda f=f, a=a, b=b: jax.block_until_ready(f(a, b))
            for name, (f, a, b) in programs.items()
        }
        for call in calls.values():
            call()  # compiles
        given = np.asarray(A), y, ROUNDS, figure1.by_einsum
        calls["NumPy, einsum over all clients"] = lambda: figure1.together(*given)
        return fastest(calls, ROUNDS, repeats)


def of_network(repeats: int) -> dict[str, float]:
    """Every layer's product of a local step and the two of its backward pass, for ten clients."""
    rng, sizes = np.random.default_rng(0), {"conv1": 28 * 28, "conv2": 14 * 14}
    drawn = lambda *shape: jnp.asarray(rng.normal(size=(10, *shape)), jnp.float32)
    layers = []
    for name, (*inputs, outputs) in KERNELS.items():
        rows, width = cnn.BATCH * sizes.get(name, 1), int(np.prod(inputs))
        layers.append((drawn(rows, width), drawn(width, outputs), drawn(rows, outputs)))

    @jax.jit
    def products(layers):
        there = [(x @ w, x.mT @ u) for x, w, u in layers]
        return there, [u @ w.mT for _, w, u in layers[1:]]  # pictures need no slope

    images, labels = cnn.pictures(10)
    ours = cnn.Ours(images, labels)
    several = lambda: [jax.block_until_ready(products(layers)) for _ in range(cnn.TAU)]
    calls = {"proxfl": lambda: ours.go(1), "its products": several}
    for call in calls.values():
        call()  # compiles
    return fastest(calls, 1, repeats)


def run(repeats: int = 60) -> dict[str, Any]:
    return {
        "what": "processor seconds of a round on a CPU, and of its products alone",
        "Figure 1's problem, no metrics": of_figure1(repeats),
        "the network, 10 clients": of_network(repeats // 2),
        "load": os.getloadavg()[0],
    }
