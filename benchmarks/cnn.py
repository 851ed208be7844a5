"""A round of Algorithm 1 on the paper's network: batches of 10, tau = 5, float32.

Every client holds ten pictures and takes all of them in each step, so that all sides see the same
batches. Peers: a PyTorch loop over clients (channels last, fused list operations), PyTorch's `vmap`
over clients and, on a GPU, that in a CUDA graph, plain and compiled, which is PyTorch at its best.
All must agree after two rounds before they are timed; a graph that fails says why in its row.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from benchmarks.side import interleaved, seconds, within
from proxfl.engine.round import simulated_round, start
from proxfl.points import Tree
from proxfl.problem import Shard
from proxfl.prox import L1, OnLeaves
from proxfl.research import cnn

ETA, ETA_G, TAU, THETA, BATCH = 0.005, 1.0, 5, 1e-4, 10
PATIENCE = 90  # seconds in which a peer must be ready
PEERS = {"PyTorch, loop": "Loop", "PyTorch, vmap": "Together"}
GRAPHS = {
    "PyTorch, vmap in a CUDA graph": "Captured",
    "PyTorch, compiled, in a CUDA graph": "Compiled",
}


def pictures(clients: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (clients, BATCH, 28, 28), np.uint8)
    return images, rng.integers(0, 10, (clients, BATCH)).astype(np.int32)


class Ours:
    """Rounds in one compiled program, of a network that may be written in another way."""

    def __init__(
        self, images: np.ndarray, labels: np.ndarray, loss: Any = cnn.loss, x0: Any = None
    ):
        n, start_at = len(labels), cnn.init(jax.random.key(0)) if x0 is None else x0
        size, weight = jnp.full(n, BATCH, jnp.int32), jnp.full(n, 1 / n, jnp.float32)
        shards = Shard((jnp.asarray(images), jnp.asarray(labels)), size, weight)
        problem = px.Problem(
            g=OnLeaves(L1(THETA), ("*",)), x0=Tree(start_at), loss=loss, batch=BATCH
        )
        algorithm = px.Decoupled(ETA, ETA_G, TAU)
        problem, algorithm = jax.tree.map(jnp.asarray, (problem, algorithm))
        self.g, self.algorithm, self.x0 = problem.g, algorithm, start_at
        self.run = start(algorithm, problem, shards)

        def rounds(run, count):
            step = lambda _, run: simulated_round(algorithm, problem, shards, run)[0]
            return jax.lax.fori_loop(0, count, step, run)

        self.rounds = jax.jit(rounds, donate_argnums=0)

    def go(self, count: int) -> None:
        self.run = jax.block_until_ready(self.rounds(self.run, count))

    def model(self) -> Any:
        return self.algorithm.output(self.g, self.run.server).params


def floor(clients: int) -> dict[str, float]:
    """What the round cannot do without: multiplications, and the vectors of its local steps.

    Products of the layers, times three with the backward pass; per step and client the model is
    read for both passes, and gradient, sum, correction and model are read or written once each.
    """
    macs = 28 * 28 * 9 * 32 + 14 * 14 * 9 * 32 * 32 + 1568 * 64 + 64 * 32 + 32 * 10
    steps = clients * TAU
    return {"flops": 6.0 * macs * BATCH * steps, "bytes": 4.0 * 112_394 * 8 * steps}


def limits() -> tuple[float, float]:
    """Multiply-adds (as two) and bytes per second of this device, by a product and by a sum."""
    side = 2048 if jax.default_backend() == "cpu" else 8192
    square = jnp.ones((side, side), jnp.float32)
    multiply, total = jax.jit(lambda a: a @ a), jax.jit(jnp.sum)
    large = jnp.ones(2**26 if jax.default_backend() == "cpu" else 2**30, jnp.float32)
    fastest = lambda f, x: min(seconds(lambda: jax.block_until_ready(f(x))) for _ in range(6))
    return 2 * side**3 / fastest(multiply, square), large.nbytes / fastest(total, large)


def against_floor(taken: float, clients: int, rates: tuple[float, float]) -> dict[str, float]:
    """The round against the longer of its arithmetic and its vectors' traffic at full speed."""
    least = floor(clients)
    bound = max(least["flops"] / rates[0], least["bytes"] / rates[1])
    speeds = {"flops per second": rates[0], "bytes per second": rates[1]}
    return least | speeds | {"floor seconds": bound, "ours over floor": taken / bound}


def agree(ours: "Ours", peer: Any, device: str) -> None:
    """After two rounds of each, up to the rounding of float32, or of TF32 on a GPU."""
    from benchmarks import torch_cnn

    for _ in range(2):
        peer.round()
    model = torch_cnn.flat(ours.model(), "cpu")
    for a, b in zip(model, peer.model(), strict=True):
        np.testing.assert_allclose(a, b.detach().cpu(), atol=1e-3 if device == "cuda" else 2e-5)


def contenders(
    ours: "Ours", images: np.ndarray, labels: np.ndarray, device: str, names: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Peers that agree with our first two rounds, and why the others are not among them."""
    from benchmarks import torch_cnn

    start_at = torch_cnn.flat(ours.x0, device)
    given = start_at, *torch_cnn.prepared(images, labels, device), ETA, ETA_G, TAU, THETA
    ours.go(2)
    peers, failed = {}, {}
    for name, kind in names.items():
        try:
            with within(PATIENCE):
                peer = getattr(torch_cnn, kind)(*given)
                agree(ours, peer, device)
            peers[name] = peer
        except Exception as error:  # whatever a driver, a compiler or a capture may raise
            if name not in GRAPHS:
                raise
            failed[name] = {
                "failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            }
    return peers, failed


def timed(
    ours: "Ours", peers: dict[str, Any], repeats: int, many: int, device: str
) -> dict[str, Any]:
    """Seconds of a round, ours and each peer's in turn, over `many` rounds at a time."""
    from benchmarks import torch_cnn

    wait = torch_cnn.waits(device)

    def several(peer):
        for _ in range(many):
            peer.round()
        wait()

    calls = {"proxfl": lambda: ours.go(many)}
    calls |= {name: lambda peer=peer: several(peer) for name, peer in peers.items()}
    return interleaved(calls, repeats, many)


def run(repeats: int = 11) -> dict[str, Any]:
    device = "cpu" if jax.default_backend() == "cpu" else "cuda"
    images, labels = pictures(10)
    ours = Ours(images, labels)
    first = seconds(lambda: ours.go(0))
    names = PEERS if device == "cpu" else PEERS | GRAPHS
    peers, failed = contenders(ours, images, labels, device, names)
    times = timed(ours, peers, repeats, 5 if device == "cpu" else 20, device)
    rates = limits()
    found = {
        "what": "a round of the network, 10 clients",
        "times": times | failed,
        "first call, which compiles, in seconds": first,
        "floor": against_floor(times["proxfl"]["seconds"], 10, rates),
    }
    if device == "cuda":
        images, labels = pictures(1000)
        large = Ours(images, labels)
        peers, failed = contenders(large, images, labels, device, GRAPHS)
        times = timed(large, peers, repeats, 10, device)
        found["a thousand clients"] = times | failed
        bound = against_floor(times["proxfl"]["seconds"], 1000, rates)
        found["floor, a thousand clients"] = bound
    return found
