"""Who gets how many rows, and which: lists of index arrays, one per client.

Every partition is disjoint, covers all examples, and leaves no client empty; indices come sorted.
"""

from collections.abc import Sequence

import numpy as np

from proxfl.data.federated import AT_LEAST_ONE, Site, between, demand, must
from proxfl.pytree import NON_NEGATIVE, POSITIVE, Condition

SIZES = Condition(
    "whole numbers of at least 1",
    lambda v: v.ndim == 1 and v.dtype.kind in "iu" and bool((v >= 1).all()),
)


def iid(total: int, clients: int, *, seed: int) -> list[np.ndarray]:
    """Parts of equal size, up to one, drawn uniformly."""
    enough(total, clients)
    parts = np.array_split(np.random.default_rng(seed).permutation(total), clients)
    return [np.sort(part) for part in parts]


def by_size(total: int, sizes: Sequence[int], *, seed: int) -> list[np.ndarray]:
    """Parts of the given sizes, drawn uniformly; `power_law` makes skewed ones."""
    must("sizes", sizes, SIZES)
    wanted = np.asarray(sizes)
    demand(
        wanted.sum() == total,
        f"sizes must sum to the {total} examples, got a sum of {wanted.sum()}.",
    )
    order = np.random.default_rng(seed).permutation(total)
    return [np.sort(part) for part in np.split(order, np.cumsum(wanted)[:-1])]


def by_label(labels: np.ndarray, clients: int) -> list[np.ndarray]:
    """Labels dealt to clients in turn: as few labels per client as can be.

    With fewer labels than clients, the examples of a label are cut evenly among those it falls to.
    """
    labels = one_axis(labels)
    enough(len(labels), clients)
    parts = deal(labels, np.arange(len(labels)), clients)
    demand(
        min(map(len, parts)) > 0,
        f"some label has fewer examples than the clients that share it, at {clients} clients; "
        "use fewer clients.",
    )
    return parts


def dirichlet(
    labels: np.ndarray, clients: int, concentration: float, *, least: int = 1, seed: int
) -> list[np.ndarray]:
    """Each label is shared out in proportions from a symmetric Dirichlet distribution.

    A small concentration gives every client few labels, a large one the same mix. Partitions that
    leave a client fewer than `least` examples are drawn again, up to a hundred times.
    """
    labels = one_axis(labels)
    enough(len(labels), clients, least)
    must("concentration", concentration, POSITIVE)
    must("least", least, AT_LEAST_ONE)
    rng = np.random.default_rng(seed)
    holders = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    for _ in range(100):
        shares = rng.dirichlet(np.full(clients, concentration), len(holders))
        cuts = [
            np.split(holder, np.round(np.cumsum(share)[:-1] * len(holder)).astype(int))
            for holder, share in zip(holders, shares, strict=True)
        ]
        parts = [np.sort(np.concatenate(mine)) for mine in zip(*cuts, strict=True)]
        if min(map(len, parts)) >= least:
            return parts
    raise ValueError(
        f"concentration={concentration} left one of {clients} clients with fewer than {least} "
        "examples in a hundred draws; raise concentration or use fewer clients."
    )


def paper_mnist(labels: np.ndarray, clients: int = 10, *, seed: int) -> list[np.ndarray]:
    """Half of the examples go to the clients evenly and uniformly, the other half by label.

    With ten labels and ten clients, client l gets all examples of label l in the second half.
    """
    labels = one_axis(labels)
    enough(len(labels), clients, least=2)
    half = len(labels) // 2
    order = np.random.default_rng(seed).permutation(len(labels))
    even = np.array_split(order[:half], clients)
    rest = deal(labels, np.sort(order[half:]), clients)
    return [np.sort(np.concatenate(both)) for both in zip(even, rest, strict=True)]


def hand_out(A: np.ndarray, y: np.ndarray, parts: Sequence[np.ndarray]) -> list[Site]:
    """The clients' data under a partition."""
    return [(A[part], y[part]) for part in parts]


def deal(labels: np.ndarray, among: np.ndarray, clients: int) -> list[np.ndarray]:
    """The indices `among`, label by label: one client each, or several where labels are fewer."""
    names = np.unique(labels)
    parts = [among[:0]] * clients
    for k, name in enumerate(names):
        takers = range(k % clients, clients, len(names))
        shares = np.array_split(among[labels[among] == name], len(takers))
        for i, share in zip(takers, shares, strict=True):
            parts[i] = np.sort(np.concatenate([parts[i], share]))
    return parts


def enough(total: int, clients: int, least: int = 1) -> None:
    must("clients", clients, AT_LEAST_ONE)
    demand(
        clients * least <= total,
        f"{clients} clients need {clients * least} examples or more, got {total}.",
    )


def one_axis(labels: np.ndarray) -> np.ndarray:
    labels = np.asarray(labels)
    demand(labels.ndim == 1, f"labels must have one axis, got shape {labels.shape}.")
    return labels


def per_client(rows: int | Sequence[int], clients: int) -> np.ndarray:
    """One positive size per client, from one for all or from one for each."""
    must("clients", clients, AT_LEAST_ONE)
    sizes = np.full(clients, rows) if np.ndim(rows) == 0 else np.asarray(rows)
    demand(
        sizes.shape == (clients,),
        f"rows must be one number or {clients} of them, one per client, got {sizes.size}.",
    )
    demand(SIZES.holds(sizes), f"rows must be {SIZES.words}, got {rows}.")
    return sizes


def lognormal(clients: int, *, seed: int) -> list[int]:
    """The sizes of the FedProx data: 50 and more, with a heavy tail of exp(N(4, std 2))."""
    must("clients", clients, AT_LEAST_ONE)
    tail = np.random.default_rng(seed).lognormal(4.0, 2.0, clients)
    return (50 + np.floor(tail)).astype(int).tolist()


def power_law(total: int, clients: int, exponent: float) -> list[int]:
    """Sizes that sum to `total` and fall off as rank^-exponent; everyone holds at least one row.

    Fractions are rounded down, and what is left goes to those who lost most by it.
    """
    must("clients", clients, between(1, total, "rows"))
    must("exponent", exponent, NON_NEGATIVE)
    shares = np.arange(1, clients + 1) ** -float(exponent)
    exact = (total - clients) * shares / shares.sum()
    sizes = np.floor(exact).astype(int)
    short = total - clients - sizes.sum()
    sizes[np.argsort(sizes - exact, kind="stable")[:short]] += 1
    return (1 + sizes).tolist()
