"""The paper's network for MNIST: two convolutions and three dense layers, 112,394 parameters.

    28x28 -> 3x3 conv, 32 -> pool 2x2 -> 3x3 conv, 32 -> pool 2x2 -> 64 -> 32 -> 10

with ReLU between. Of the readings of the paper's text this is the one with its number of
parameters: zero padding of 1 and a pool after each convolution.

A convolution is written as patches times a matrix, since clients differ in their kernels: under
`vmap` that stays a batched matrix product, while `lax.conv` becomes a grouped convolution, which
is many times slower. The patches differ by device (see `convolve_and_pool`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from proxfl.precision import precision
from proxfl.research.half import in_half

Layer = dict[str, Any]  # "kernel" and "bias", of JAX while training and of NumPy in a result
Params = dict[str, Layer]
Images = UInt8[Array, "rows 28 28"] | UInt8[np.ndarray, "rows 28 28"]
Labels = Int[Array, " rows"] | Int[np.ndarray, " rows"]

# Kernels, outputs last; every layer has a bias per output besides.
KERNELS = {
    "conv1": (3, 3, 1, 32),
    "conv2": (3, 3, 32, 32),
    "dense1": (7 * 7 * 32, 64),
    "dense2": (64, 32),
    "dense3": (32, 10),
}
CHUNK = 128  # where there are more rows, so many at a time: an example's patches take 0.25 MB


def init(key: PRNGKeyArray, dtype: Any = jnp.float32) -> Params:
    """He's start: kernels truncated normal of variance 2 / fan-in, biases zero."""
    with precision(dtype):
        keys = jax.random.split(key, len(KERNELS))
        return {
            name: {
                "kernel": jax.nn.initializers.he_normal()(key, shape, dtype),
                "bias": jnp.zeros(shape[-1], dtype),
            }
            for key, (name, shape) in zip(keys, KERNELS.items(), strict=True)
        }


def logits(params: Params, images: Images) -> Float[Array, "rows 10"]:
    """A score per kind, for images as bytes."""
    x = as_pixels(images, params["conv1"]["kernel"].dtype)[..., None]
    for name in ("conv1", "conv2"):  # the pool before the ReLU: a quarter of them
        x = jax.nn.relu(convolve_and_pool(params[name], x))
    x = x.reshape(x.shape[0], -1)
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(affine(params[name], x))
    return affine(params["dense3"], x)


def loss(params: Params, batch: tuple[Images, Labels]) -> Float[Array, " rows"]:
    """The cross-entropy of each example."""

    def entropies(batch):
        images, labels = batch
        z = logits(params, images)
        chosen = jax.nn.one_hot(labels, z.shape[1], dtype=z.dtype)
        return jax.nn.logsumexp(z, axis=1) - jnp.sum(chosen * z, axis=1)

    return in_chunks(entropies, batch)


def predict(params: Params, images: Images) -> Int[Array, " rows"]:
    """The likeliest kind of each image."""
    best = lambda images: jax.lax.argmax(logits(params, images), 1, jnp.int32)
    return in_chunks(best, images)


def as_pixels(images: Any, dtype: Any) -> Float[Array, "rows 28 28"]:
    """Scaled to 0..1, here and nowhere else."""
    if images.dtype != jnp.uint8:
        raise TypeError(f"images must be bytes from 0 to 255, got {images.dtype}; convert them.")
    return jnp.asarray(images).astype(dtype) / 255


def in_chunks(f: Callable[[Any], Array], batch: Any) -> Array:
    """f, which treats rows alike, in the memory of one chunk; so are its derivatives."""
    if jax.tree.leaves(batch)[0].shape[0] <= CHUNK:
        return f(batch)
    one = lambda row: f(jax.tree.map(lambda a: a[None], row))[0]
    return jax.lax.map(jax.checkpoint(one), batch, batch_size=CHUNK)


def affine(layer: Layer, x: Float[Array, "rows inputs"]) -> Float[Array, "rows outputs"]:
    kernel, bias = layer["kernel"], layer["bias"]
    return x @ kernel.reshape(-1, kernel.shape[-1]) + bias[None]


def convolve_and_pool(
    layer: Layer, x: Float[Array, "rows h w inputs"]
) -> Float[Array, "rows h/2 w/2 outputs"]:
    """A 3x3 convolution and the 2x2 pool after it, in the form that suits the device.

    Cells need fewer numbers in memory and 16/9 of the arithmetic: right for a GPU, wrong for a CPU.
    A GPU multiplies float32 with ten bits of it, so what is large there is kept with ten bits.
    """
    return jax.lax.platform_dependent(layer, x, cpu=by_patches, default=in_half(by_cells))


def by_patches(layer: Layer, x: Any) -> Any:
    """For each place in a cell of the pool, nine shifted copies side by side times a matrix."""
    rows, h, w, inputs = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    kernel = layer["kernel"].reshape(9 * inputs, -1)

    def every_other(i, j):
        shifts = [
            padded[:, i + k : i + k + h - 1 : 2, j + m : j + m + w - 1 : 2]
            for k in range(3)
            for m in range(3)
        ]
        return jnp.concatenate(shifts, axis=-1).reshape(rows * h * w // 4, -1) @ kernel

    z = jnp.stack([every_other(i, j) for i in range(2) for j in range(2)], axis=1)
    return (largest(z) + layer["bias"][None]).reshape(rows, h // 2, w // 2, -1)


def by_cells(layer: Layer, x: Any) -> Any:
    """A pooled output sees 4x4 inputs: two by two cells of 2x2, times the kernel in four places."""
    rows, h, w, inputs = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    cells = padded.reshape(rows, h // 2 + 1, 2, w // 2 + 1, 2, inputs).swapaxes(2, 3)
    cells = cells.reshape(rows, h // 2 + 1, w // 2 + 1, 4 * inputs)
    near = [cells[:, i : i + h // 2, j : j + w // 2] for i in range(2) for j in range(2)]
    windows = jnp.concatenate(near, axis=-1).reshape(rows * h * w // 4, -1)
    windows = jax.lax.optimization_barrier(windows)  # or XLA builds them once per product
    shifted = [
        jnp.pad(layer["kernel"], ((i, 1 - i), (j, 1 - j), (0, 0), (0, 0)))
        for i in range(2)
        for j in range(2)
    ]
    kernel = jnp.stack(shifted, axis=3).reshape(2, 2, 2, 2, inputs, 4, -1).swapaxes(1, 2)
    z = windows @ kernel.reshape(16 * inputs, -1)
    return largest(z.reshape(rows, h // 2, w // 2, 4, -1)) + layer["bias"][None, None, None]


@jax.custom_jvp
def largest(z: Float[Array, "*rest choices outputs"]) -> Float[Array, "*rest outputs"]:
    """The largest of the choices; of equal ones the derivative belongs to the first.

    So the backward pass needs a byte per output, its place, where `max` keeps all of z.
    """
    return z.max(axis=-2)


@largest.defjvp
def largest_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (dz,) = primals, tangents
    best, place = z[..., 0, :], jnp.zeros((*z.shape[:-2], z.shape[-1]), jnp.uint8)
    for k in range(1, z.shape[-2]):
        wins = z[..., k, :] > best
        best, place = jnp.where(wins, z[..., k, :], best), jnp.where(wins, jnp.uint8(k), place)
    chosen = place[..., None, :] == jax.lax.broadcasted_iota(jnp.uint8, z.shape, z.ndim - 2)
    return best, jnp.where(chosen, dz, 0).sum(axis=-2)
