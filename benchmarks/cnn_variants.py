"""Fewer and fatter kernels for the network's round: what ships, and other ways of writing it.

Each is the round of `cnn` in one program. Besides its time: the kernels that program launches by
XLA's own text, how far training takes it from products in full float32, and how it then predicts
pictures it has not seen. Pictures are ten blurred patterns under noise, made here.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from benchmarks.cnn import BATCH, Ours, pictures
from benchmarks.side import interleaved
from proxfl.research import cnn
from proxfl.research.half import halved, restored

ROUNDS, FEW, HELD_OUT = 1000, 10, 2000


def patterned(clients: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of ten patterns, the same for every seed, under noise of the seed's own."""
    coarse = np.random.default_rng(0).normal(size=(10, 7, 7))
    patterns = np.kron(coarse, np.ones((4, 4)))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, (clients, rows)).astype(np.int32)
    noisy = patterns[labels] + 2 * rng.normal(size=(clients, rows, 28, 28))
    return np.clip(128 + 40 * noisy, 0, 255).astype(np.uint8), labels


def entropies(scores: jax.Array, labels: jax.Array) -> jax.Array:
    chosen = jax.nn.one_hot(labels, scores.shape[1], dtype=scores.dtype)
    return jax.nn.logsumexp(scores, axis=1) - jnp.sum(chosen * scores, axis=1)


def multiplied(layer: cnn.Layer, x: jax.Array) -> jax.Array:
    """A dense layer as multiplications and sums, which XLA may fuse with what is around."""
    return (x[:, :, None] * layer["kernel"][None]).sum(axis=1) + layer["bias"][None]


def by_sums(
    params: cnn.Params, images: jax.Array, convolve: Callable = cnn.convolve_and_pool
) -> jax.Array:
    """The two small layers as sums."""
    return logits(params, images, convolve, multiplied)


def logits(
    params: cnn.Params,
    images: jax.Array,
    convolve: Callable = cnn.convolve_and_pool,
    small: Callable = cnn.affine,
) -> jax.Array:
    """The network, with its convolutions and its small layers written in another way."""
    x = cnn.as_pixels(images, params["conv1"]["kernel"].dtype)[..., None]
    for name in ("conv1", "conv2"):
        x = jax.nn.relu(convolve(params[name], x))
    x = jax.nn.relu(cnn.affine(params["dense1"], x.reshape(x.shape[0], -1)))
    return small(params["dense3"], jax.nn.relu(small(params["dense2"], x)))


def in_bfloat16(params: cnn.Params, images: jax.Array) -> jax.Array:
    """The network in bfloat16; parameters, loss and updates stay in float32."""
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16), params)
    return cnn.logits(half, images).astype(jnp.float32)


def in_float16(params: cnn.Params, images: jax.Array, scores: Callable = cnn.logits) -> jax.Array:
    """The network in float16; parameters, loss and updates stay in float32."""
    return restored(scores(jax.tree.map(halved, params), images))


class Variant(Ours):
    def __init__(self, images, labels, scores=cnn.logits, flat=False, precision=None):
        start_at = cnn.init(jax.random.key(0))
        vector, back = ravel_pytree(start_at)
        self.params_of = back if flat else lambda params: params
        loss = lambda x, batch: entropies(scores(self.params_of(x), batch[0]), batch[1])
        with jax.default_matmul_precision(precision or "default"):
            super().__init__(images, labels, loss, vector if flat else start_at)
            self.rounds = self.rounds.lower(self.run, 1).compile()

    def params(self) -> cnn.Params:
        return self.params_of(self.model())

    def kernels(self) -> int:
        text = self.rounds.as_text()
        return sum(text.count(f" {kind}(") for kind in ("fusion", "custom-call", "copy"))


MADE = {
    "as it ships": {},
    "network in float32": {"scores": partial(logits, convolve=cnn.by_cells)},
    "network in float16": {"scores": in_float16},
    "network in bfloat16": {"scores": in_bfloat16},
    "flat, sums": {"flat": True, "scores": by_sums},
    "flat, sums, network in float32": {
        "flat": True,
        "scores": partial(by_sums, convolve=cnn.by_cells),
    },
    "flat, sums, network in float16": {
        "flat": True,
        "scores": partial(in_float16, scores=by_sums),
    },
}
FOR_MANY = tuple(name for name, how in MADE.items() if "flat" not in how)  # flat vectors are copied


def made(
    images: np.ndarray, labels: np.ndarray, names: Iterable[str] = MADE
) -> tuple[dict[str, Variant], dict[str, str]]:
    """Variants that compile and run a round, and why others do not."""
    ready, failed = {}, {}
    for name in names:
        try:
            variant = Variant(images, labels, **MADE[name])
            variant.go(1)
            ready[name] = variant
        except Exception as error:  # whatever a compiler may raise
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return ready, failed


def run(repeats: int = 7, rounds: int = ROUNDS) -> dict[str, Any]:
    rows = {name: {"variant": name} for name in MADE}
    images, labels = patterned(10, BATCH, seed=1)
    ready, failed = made(images, labels)
    for name, found in trained(ready, Variant(images, labels, precision="highest"), rounds).items():
        rows[name] |= found
    timed(rows, ready, failed, repeats, 10)
    if jax.default_backend() != "cpu":
        timed(rows, *made(*pictures(1000), FOR_MANY), repeats, 1000)
    told = {"what": "a round of the network, written in other ways", "rounds trained": rounds}
    return told | {"variants": list(rows.values())}


def timed(
    rows: dict[str, dict[str, Any]],
    ready: dict[str, Variant],
    failed: dict[str, str],
    repeats: int,
    clients: int,
) -> None:
    """Into the rows, with why there is no time."""
    many, key = (20 if clients < 100 else 5), f"{clients} clients, ms"
    calls = {name: partial(variant.go, many) for name, variant in ready.items()}
    for name, taken in interleaved(calls, repeats, many).items():
        rows[name][key] = 1e3 * taken["seconds"]
    for name, why in failed.items():
        rows[name][key] = why


def trained(ready: dict[str, Variant], exact: Variant, rounds: int) -> dict[str, dict[str, Any]]:
    """Where training leads each, against products in full float32.

    After few rounds that is what products lose; later, small differences have grown by themselves.
    """
    unseen, truth = (a[0] for a in patterned(1, HELD_OUT, seed=2))
    begun, done = ravel_pytree(exact.params())[0], 0
    found: dict[str, dict[str, Any]] = {name: {"kernels": v.kernels()} for name, v in ready.items()}
    for after in (FEW, rounds):
        exact.go(after - done)
        reference = ravel_pytree(exact.params())[0]
        for name, variant in ready.items():
            variant.go(after - max(done, 1))  # one is behind it
            away = jnp.linalg.norm(ravel_pytree(variant.params())[0] - reference)
            told = f"away from float32 after {after}"
            found[name][told] = float(away / jnp.linalg.norm(reference - begun))
        done = after
    for name, variant in ready.items():
        right = cnn.predict(variant.params(), unseen) == truth
        found[name]["correct of unseen"] = float(right.mean())
    return found
