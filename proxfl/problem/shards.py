"""The private side of a problem: one client's examples, padded to a common number of rows.

Stacked on a leading axis, shards are a federation.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.sparse import issparse

from proxfl.problem import sparse
from proxfl.problem.sparse import is_sparse


class Shard(NamedTuple):
    """One client's examples, padded by repeating its first row, which keeps any loss finite there.

    A loss is told by `row_weights` which rows are real.
    """

    examples: Any
    size: Int[Array, ""]
    weight: Float[Array, ""]
    counts: Float[Array, " rows"] | None = None  # how much each row counts; all alike, if None

    @property
    def capacity(self) -> int:
        """The rows, padding included."""
        return jax.tree.leaves(self.examples, is_leaf=is_sparse)[0].shape[0]

    def row_weights(self, kind: Any) -> Float[Array, " rows"]:
        """Each row's weight in the client's mean; 0 for padding."""
        if self.counts is not None:
            total = self.total(kind)
            return self.counts.astype(kind) / jnp.where(total > 0, total, 1.0)
        real = jnp.arange(self.capacity, dtype=self.size.dtype) < self.size
        return real.astype(kind) / self.total(kind)

    def total(self, kind: Any) -> Float[Array, ""]:
        """How much all rows count."""
        return (self.size if self.counts is None else jnp.sum(self.counts)).astype(kind)


def shards_of(
    sites: Sequence[Any], weights: str | Sequence[float] = "uniform", dtype: Any = np.float64
) -> Shard:
    """Stack one pytree of arrays per client, rows first, into a federation.

    Sparse matrices of SciPy's stay sparse.

    Weights are `uniform` (1/n each, as in the paper), `samples` (by number of rows, which makes
    the objective that of the pooled data), or one number per client.
    """
    sizes = [rows_of(site, i) for i, site in enumerate(sites)]
    if not sizes:
        raise ValueError("There are no clients: give at least one site.")
    return stack(sites, client_weights(weights, sizes), max(sizes), dtype)


def stack(
    sites: Sequence[Any],
    weights: np.ndarray,
    capacity: int,
    dtype: Any,
    counts: Sequence[np.ndarray] | None = None,
) -> Shard:
    """Sites of the same arrays as one federation of `capacity` rows each.

    With `counts` rows count that much in the mean of their site, for each site an array.
    """

    def pad(*leaves):
        if len({leaf.shape[1:] for leaf in leaves}) > 1:
            shapes = sorted({str(leaf.shape[1:]) for leaf in leaves})
            raise ValueError(
                f"Clients disagree on the shape of an example: {' and '.join(shapes)}; "
                "give every client the same features."
            )
        kind = dtype if leaves[0].dtype.kind == "f" else leaves[0].dtype
        if issparse(leaves[0]):
            return sparse.stack(leaves, capacity, kind)
        stacked = np.empty((len(leaves), capacity, *leaves[0].shape[1:]), kind)
        for row, leaf in zip(stacked, leaves, strict=True):
            row[: len(leaf)] = leaf
            row[len(leaf) :] = leaf[0]
        return jax.device_put(stacked)  # jnp.asarray compiles a program for each shape

    arrays = [jax.tree.map(as_array, site) for site in sites]
    sizes = np.array([jax.tree.leaves(site)[0].shape[0] for site in arrays], np.int32)
    examples = jax.tree.map(pad, *arrays)
    made = Shard(examples, *jax.device_put((sizes, weights.astype(dtype))))
    if counts is None:
        return made
    padded = [np.pad(rows, (0, capacity - len(rows))) for rows in counts]
    return made._replace(counts=jnp.asarray(np.stack(padded), dtype))


def as_array(leaf: Any) -> Any:
    if issparse(leaf):
        return leaf
    try:
        return np.asarray(leaf)
    except (TypeError, ValueError):
        raise ValueError(
            f"A client's rows must be arrays, got {type(leaf).__name__}; of a PyTorch dataset of "
            "tensors take dataset.tensors."
        ) from None


def rows_of(site: Any, client: int) -> int:
    """How many examples a site holds, once its arrays are seen to agree and to be finite."""
    leaves = [as_array(leaf) for leaf in jax.tree.leaves(site)]
    if not all(leaf.ndim for leaf in leaves):
        raise ValueError(
            f"Client {client} holds single numbers where arrays belong; make arrays of its lists, "
            "as by numpy.asarray."
        )
    rows = {leaf.shape[0] for leaf in leaves}
    if len(rows) != 1:
        raise ValueError(
            f"Client {client} has arrays of shapes {[leaf.shape for leaf in leaves]}; "
            "they need one common first axis, a row per example."
        )
    if rows == {0}:
        raise ValueError(f"Client {client} has no examples; leave it out or give it data.")
    for leaf in leaves:
        if leaf.dtype.kind not in "fiub":
            raise ValueError(
                f"Client {client} has an array of type {leaf.dtype}; encode it as numbers first."
            )
        if leaf.dtype.kind == "f" and (bad := first_bad_row(leaf)) is not None:
            raise ValueError(
                f"Client {client} has a value that is not finite, first in row {bad}; "
                "clean or drop that row."
            )
    return rows.pop()


def first_bad_row(leaf: Any) -> int | None:
    """The first row with a value that is not finite."""
    if issparse(leaf):
        entries = leaf.tocoo()
        rows = entries.row[~np.isfinite(entries.data)]
    else:
        rows = np.argwhere(~np.isfinite(leaf))[:, 0]
    return int(rows.min()) if rows.size else None


def client_weights(weights: str | Sequence[float], sizes: Sequence[int | float]) -> np.ndarray:
    """Weights that sum to one."""
    raw = relative_weights(weights, sizes)
    return raw / raw.sum()


def relative_weights(weights: str | Sequence[float], sizes: Sequence[int | float]) -> np.ndarray:
    """How much clients count beside each other: their rows, one each, or as was given."""
    if isinstance(weights, str):
        if weights not in ("uniform", "samples"):
            raise ValueError(f"weights must be 'uniform' or 'samples', got {weights!r}.")
        raw = np.ones(len(sizes)) if weights == "uniform" else np.array(sizes, float)
    else:
        raw = np.asarray(weights, float)
        if raw.shape != (len(sizes),) or not np.isfinite(raw).all() or not (raw > 0).all():
            raise ValueError(
                f"weights must be {len(sizes)} positive numbers, one per client, got {weights!r}."
            )
    return raw
