"""Sparse rows of features: stored by row, multiplied from both sides.

A `SparseMatrix` takes the place of the dense features of a linear model; losses and algorithms do
not notice. Its two products gather and scatter in the compiled program. On a CPU, XLA does that one
number at a time, so there a large matrix is multiplied by SciPy, outside the program but out of the
same memory. Passing the matrix out would copy it each time; hence the program is told which one it
is (`host`) when it is compiled, and only vectors travel. A new large data set on a CPU therefore
compiles anew.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int

from proxfl.pytree import pytree, static

# Entries of one client from which SciPy wins over the compiled program, the trip included.
WORTH_A_TRIP = 50_000


@pytree
class SparseMatrix:
    """Rows of (column, value) pairs, one after the other; padding has the value zero.

    Made by `stack`, with one client per place on the first axis, and never changed.
    """

    starts: Int[Array, "*clients rows_and_one"]
    rows: Int[Array, "*clients entries"]
    columns: Int[Array, "*clients entries"]
    values: Float[Array, "*clients entries"]
    client: Int[Array, "*clients"]  # which of the host's matrices this is
    width: int = static()
    longest: int = static()  # entries in a row, at most
    host: "Host | None" = static(default=None)

    @property
    def shape(self) -> tuple[int, int]:
        return self.starts.shape[-1] - 1, self.width

    @property
    def T(self) -> "Transposed":
        return Transposed(self)

    def __matmul__(self, x: Any) -> Any:
        return product(self, x, False)

    def __pow__(self, power: int) -> "SparseMatrix":
        """Each number to a power; what is zero stays out."""
        return replace(self, values=self.values**power, host=None)

    def take(
        self, columns: Int[Array, " some"], axis: int, mode: str, fill_value: float
    ) -> Float[Array, "rows some"]:
        """Some columns, written out, as `jnp.take` gives them; one beyond the last is zeros."""
        count = columns.shape[0]
        place = jnp.full(self.width, count, columns.dtype)
        place = place.at[columns].set(jnp.arange(count, dtype=columns.dtype), mode="drop")
        written = jnp.zeros((self.shape[0], count), self.values.dtype)
        return written.at[self.rows, place[self.columns]].add(self.values, mode="drop")

    def __getitem__(self, rows: Int[Array, " some"]) -> "SparseMatrix":
        """The matrix of some rows, each padded to the longest."""
        window = jnp.arange(self.longest, dtype=self.starts.dtype)
        place = self.starts[rows][:, None] + window[None, :]
        real = place < self.starts[rows + 1][:, None]
        take = lambda a: jnp.where(real, a.at[place].get(mode="clip"), 0).ravel()
        count = np.arange(rows.shape[0] + 1, dtype=np.int32)
        return SparseMatrix(
            starts=jnp.asarray(count * self.longest),
            rows=jnp.asarray(np.repeat(count[:-1], self.longest)),
            columns=take(self.columns),
            values=take(self.values),
            client=self.client,
            width=self.width,
            longest=self.longest,
        )


@pytree
class Transposed:
    """What `A.T` is for a sparse A: good for one product."""

    matrix: SparseMatrix

    def __matmul__(self, x: Any) -> Any:
        return product(self.matrix, x, True)


def is_sparse(part: Any) -> bool:
    return isinstance(part, SparseMatrix)


def product(A: SparseMatrix, x: Any, transposed: bool) -> Any:
    """A x, or its transpose times x."""
    stay = lambda A, x: in_program(A, x, transposed)
    if A.host is None:
        return stay(A, x)
    trip = lambda A, x: by_scipy(A, x, transposed)
    return jax.lax.platform_dependent(A, x, cpu=trip, default=stay)


def in_program(A: SparseMatrix, x: Any, transposed: bool) -> Any:
    rows, columns = A.shape
    source, target, size = A.columns, A.rows, rows
    if transposed:
        source, target, size = A.rows, A.columns, columns
    gathered = x.at[source].get(mode="promise_in_bounds")
    values = A.values if x.ndim == 1 else A.values[:, None]
    return jax.ops.segment_sum(
        values * gathered, target, size, indices_are_sorted=not transposed, mode="promise_in_bounds"
    )


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def by_scipy(A: SparseMatrix, x: Any, transposed: bool) -> Any:
    host: Any = A.host
    multiply = partial(multiplied, host.turned if transposed else host.matrices)
    # As words of 32 bits: on their way to the host, JAX would round wider numbers. What it takes
    # for double precision is a setting of the thread, and the host's is another one.
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    found = jax.ShapeDtypeStruct((A.shape[1 if transposed else 0], *bits.shape[1:]), bits.dtype)
    told = jax.pure_callback(multiply, found, A.client, bits, vmap_method="expand_dims")
    return jax.lax.bitcast_convert_type(told, x.dtype)


@by_scipy.defjvp
def by_scipy_jvp(transposed: bool, primals: Any, tangents: Any) -> Any:
    """The product is linear in x; A is data."""
    (A, x), (_, dx) = primals, tangents
    return by_scipy(A, x, transposed), by_scipy(A, dx, transposed)


class Host:
    """The clients' matrices as SciPy sees them."""

    def __init__(self, matrices: Sequence[Any]):
        self.matrices = list(matrices)
        self.turned = [matrix.T for matrix in matrices]  # views


def multiplied(matrices: Sequence[Any], client: Any, bits: Any) -> np.ndarray:
    """The product of each client's matrix and vector; what a batch shares comes only once."""
    client, words = np.asarray(client), np.ascontiguousarray(bits)
    kind = matrices[0].dtype
    x = words.view(kind)[..., 0] if kind.itemsize == 8 else words.view(kind)
    axes = client.ndim
    batch = np.broadcast_shapes(client.shape, x.shape[:axes])
    numbers = np.broadcast_to(client, batch).ravel()
    inputs = np.broadcast_to(x, batch + x.shape[axes:]).reshape(-1, *x.shape[axes:])
    found = np.empty((len(numbers), matrices[0].shape[0], *x.shape[axes + 1 :]), x.dtype)

    def one(k: int) -> None:
        found[k] = matrices[numbers[k]] @ inputs[k]

    with ThreadPoolExecutor() as pool:  # SciPy lets go of the interpreter while it multiplies
        list(pool.map(one, range(len(numbers))))
    found = found.reshape(*batch, *found.shape[1:])
    return (found[..., None] if kind.itemsize == 8 else found).view(np.uint32)


def stack(matrices: Sequence[Any], capacity: int, dtype: Any) -> SparseMatrix:
    """One matrix per client, of SciPy's, stacked; rows up to `capacity` are empty."""
    rowwise: list[Any] = [scipy.sparse.csr_array(m) for m in matrices]
    for matrix in rowwise:
        matrix.sum_duplicates()
    clients, entries = len(rowwise), max(1, *(m.nnz for m in rowwise))
    starts = np.empty((clients, capacity + 1), np.int32)
    rows = np.full((clients, entries), capacity - 1, np.int32)  # padding, too, is in order
    columns = np.zeros((clients, entries), np.int32)
    values = np.zeros((clients, entries), dtype)
    lengths = [np.diff(m.indptr) for m in rowwise]
    for i, m in enumerate(rowwise):
        starts[i], starts[i, : m.shape[0] + 1] = m.nnz, m.indptr
        rows[i, : m.nnz] = np.repeat(np.arange(m.shape[0]), lengths[i])
        columns[i, : m.nnz], values[i, : m.nnz] = m.indices, m.data
    on_device = map(
        jnp.asarray, (starts, rows, columns, values, np.arange(clients, dtype=np.int32))
    )
    longest = max(1, *(int(length.max(initial=0)) for length in lengths))
    stacked = SparseMatrix(*on_device, width=rowwise[0].shape[1], longest=longest)
    return replace(stacked, host=host_of(stacked)) if entries >= WORTH_A_TRIP else stacked


def host_of(stacked: SparseMatrix) -> Host | None:
    """SciPy's view of the stacked arrays, if they lie in the memory of a CPU."""
    if any(device.platform != "cpu" for device in stacked.starts.devices()):
        return None
    parts = zip(*map(np.asarray, (stacked.values, stacked.columns, stacked.starts)), strict=True)
    view = partial(scipy.sparse.csr_array, shape=stacked.shape, copy=False)
    return Host([view(part) for part in parts])
