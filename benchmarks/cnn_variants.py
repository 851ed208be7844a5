"""Fewer and fatter kernels for the network's round: what ships, and other ways of writing it.

Each is the round of `cnn` in one program. Besides its time: the kernels that program launches by
XLA's own text, how far training takes it from products in full float32, and how it then predicts
pictures it has not seen. Pictures are ten blurred patterns under noise, made here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from benchmarks.cnn import BATCH, Ours, pictures
from benchmarks.side import interleaved
from proxfl.research import cnn

ROUNDS, HELD_OUT = 1000, 2000


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


def by_sums(params: cnn.Params, images: jax.Array) -> jax.Array:
    """The two small layers as sums."""
    x = cnn.as_pixels(images, params["conv1"]["kernel"].dtype)[..., None]
    return behind_first(params, jax.nn.relu(cnn.convolve_and_pool(params["conv1"], x)), multiplied)


def behind_first(
    params: cnn.Params, x: jax.Array, small: Callable = cnn.affine, large: Callable = cnn.affine
) -> jax.Array:
    """All layers but the first."""
    x = jax.nn.relu(cnn.convolve_and_pool(params["conv2"], x))
    x = jax.nn.relu(large(params["dense1"], x.reshape(x.shape[0], -1)))
    return small(params["dense3"], jax.nn.relu(small(params["dense2"], x)))


@jax.custom_vjp
def outer(layer: cnn.Layer, x: jax.Array) -> jax.Array:
    """A dense layer whose slope in the kernel is a sum of outer products, a row each.

    With few rows that fuses into the update of the model: the slope is never written.
    """
    return cnn.affine(layer, x)


def outer_backwards(kept: Any, slope: jax.Array) -> tuple[cnn.Layer, jax.Array]:
    kernel, x = kept
    each = [x[row][:, None] * slope[row][None] for row in range(x.shape[0])]
    return {"kernel": sum(each[1:], each[0]), "bias": slope.sum(axis=0)}, slope @ kernel.T


outer.defvjp(lambda layer, x: (cnn.affine(layer, x), (layer["kernel"], x)), outer_backwards)


def by_shifts(params: cnn.Params, images: jax.Array, behind: Callable = behind_first) -> jax.Array:
    """The first convolution and its pool without the numbers that the pool chooses from.

    They are the largest array of the network, written and read in both passes. With one input,
    multiplying again is cheaper, in full float32 and in one kernel each way.
    """
    layer = params["conv1"]
    x = cnn.as_pixels(images, layer["kernel"].dtype)
    best = largest_of_shifts(layer["kernel"].reshape(9, -1), x)
    return behind(params, jax.nn.relu(best + layer["bias"][None, None, None]))


def shifts(x: jax.Array) -> list[list[jax.Array]]:
    """For each of four places in the pool, what the nine numbers of a kernel meet."""
    padded, (h, w) = jnp.pad(x, ((0, 0), (1, 1), (1, 1))), x.shape[1:]
    every_other = lambda i, j: padded[:, i : i + h - 1 : 2, j : j + w - 1 : 2, None]
    near = range(3)
    return [
        [every_other(i + k, j + m) for k in near for m in near] for i in range(2) for j in range(2)
    ]


def chosen(kernel: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The largest of the four, and its place; of equal ones the first."""
    sums = [sum(a * k[None, None, None] for a, k in zip(s, kernel, strict=True)) for s in shifts(x)]
    best, place = sums[0], jnp.zeros(sums[0].shape, jnp.uint8)
    for i, z in enumerate(sums[1:], start=1):
        best, place = jnp.maximum(best, z), jnp.where(z > best, jnp.uint8(i), place)
    return best, place


@jax.custom_vjp
def largest_of_shifts(kernel: jax.Array, x: jax.Array) -> jax.Array:
    """A kernel [9, outputs] over pictures [rows, h, w], and the largest of two by two places."""
    return chosen(kernel, x)[0]


def forwards(kernel: jax.Array, x: jax.Array) -> tuple[jax.Array, Any]:
    best, place = chosen(kernel, x)
    return best, (place, x)


def backwards(kept: Any, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    """All nine sums in one pass over the slope; pictures need no slope of their own."""
    place, x = kept
    met = zip(*shifts(x), strict=True)
    where = [place == i for i in range(3)]
    each = [slope * jnp.select(where, list(four[:3]), four[3]) for four in met]
    zeros, add = [jnp.zeros((), slope.dtype)] * 9, lambda a, b: tuple(map(jnp.add, a, b))
    of_rows = jax.lax.reduce(tuple(each), tuple(zeros), add, (1, 2))  # all rows side by side
    return jnp.stack(of_rows).sum(axis=1), jnp.zeros_like(x)


largest_of_shifts.defvjp(forwards, backwards)


def in_bfloat16(params: cnn.Params, images: jax.Array, scores: Callable = cnn.logits) -> jax.Array:
    """The network in bfloat16; parameters, loss and updates stay in float32."""
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16), params)
    return scores(half, images).astype(jnp.float32)


def behind_in_bfloat16(params: cnn.Params, x: jax.Array) -> jax.Array:
    """What comes after the first layer, which stays in float32."""
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (params, x))
    return behind_first(*half, multiplied).astype(jnp.float32)


class Variant(Ours):
    def __init__(self, images, labels, scores=cnn.logits, flat=False, precision=None):
        start_at = cnn.init(jax.random.key(0))
        flat = len(labels) < FEW if flat == "if few" else flat
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
    "network in bfloat16": {"scores": in_bfloat16},
    "flat, sums, bfloat16": {
        "flat": True,
        "scores": partial(in_bfloat16, scores=by_sums),
    },
    "first layer by shifts": {"scores": by_shifts},
    "by shifts, slopes as sums": {
        "scores": partial(by_shifts, behind=partial(behind_first, large=outer)),
    },
    "by shifts, sums, bfloat16, flat if few": {
        "flat": "if few",
        "scores": partial(by_shifts, behind=behind_in_bfloat16),
    },
}
FEW = 100  # clients, below which a copy of their vectors costs less than many kernels


def made(images: np.ndarray, labels: np.ndarray) -> tuple[dict[str, Variant], dict[str, str]]:
    """Variants that compile and run a round, and why others do not."""
    ready, failed = {}, {}
    for name, how in MADE.items():
        try:
            variant = Variant(images, labels, **how)
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
        timed(rows, *made(*pictures(1000)), repeats, 1000)
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
    """Where training leads each, against products in full float32."""
    unseen, truth = (a[0] for a in patterned(1, HELD_OUT, seed=2))
    begun = ravel_pytree(exact.params())[0]
    exact.go(rounds)
    reference = ravel_pytree(exact.params())[0]
    found = {}
    for name, variant in ready.items():
        variant.go(rounds - 1)  # one is behind it
        params = variant.params()
        away = jnp.linalg.norm(ravel_pytree(params)[0] - reference)
        found[name] = {
            "kernels": variant.kernels(),
            "away from float32": float(away / jnp.linalg.norm(reference - begun)),
            "correct of unseen": float((cnn.predict(params, unseen) == truth).mean()),
        }
    return found
