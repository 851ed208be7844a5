"""How many rows each client holds."""

from collections.abc import Sequence

import numpy as np

from proxfl.data.federated import demand


def per_client(rows: int | Sequence[int], clients: int) -> np.ndarray:
    """One positive size per client, from one for all or from one for each."""
    demand(clients >= 1, f"clients must be at least 1, got {clients}; give one or more.")
    sizes = np.full(clients, rows) if np.ndim(rows) == 0 else np.asarray(rows)
    demand(
        sizes.shape == (clients,),
        f"rows must be one number or {clients} of them, one per client, got {sizes.size}; "
        "change rows or clients.",
    )
    demand(
        sizes.dtype.kind in "iu" and np.all(sizes >= 1),
        f"rows must be whole numbers of at least 1, got {rows}; give every client a row.",
    )
    return sizes


def lognormal(clients: int, *, seed: int) -> list[int]:
    """The sizes of the FedProx data: 50 and more, with a heavy tail of exp(N(4, std 2))."""
    demand(clients >= 1, f"clients must be at least 1, got {clients}; give one or more.")
    tail = np.random.default_rng(seed).lognormal(4.0, 2.0, clients)
    return (50 + np.floor(tail)).astype(int).tolist()


def power_law(total: int, clients: int, exponent: float) -> list[int]:
    """Sizes that sum to `total` and fall off as rank^-exponent; everyone holds at least one row.

    Fractions are rounded down, and what is left goes to those who lost most by it.
    """
    demand(
        1 <= clients <= total,
        f"clients must be between 1 and the {total} rows, got {clients}; lower it.",
    )
    demand(
        0 <= exponent < np.inf,
        f"exponent must be non-negative and finite, got {exponent}; 0 makes all sizes equal.",
    )
    shares = np.arange(1, clients + 1) ** -float(exponent)
    exact = (total - clients) * shares / shares.sum()
    sizes = np.floor(exact).astype(int)
    short = total - clients - sizes.sum()
    sizes[np.argsort(sizes - exact, kind="stable")[:short]] += 1
    return (1 + sizes).tolist()
