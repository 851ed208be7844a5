"""A run's checkpoint: one file from which it goes on to the same bits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp

from proxfl.errors import InputError
from proxfl.storage.checkpoint import load, load_about, refuse_not_finite, save
from proxfl.storage.documents import demand
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.local import LocalFederation, Traffic


class About(TypedDict):
    """What a checkpoint holds beside its arrays."""

    records: list[tuple[int, float, float, float, bool]]
    traffic: list[tuple[int, int, int]]
    ledger: dict[str, tuple[int, int, int]]
    seconds: float


class Progress(NamedTuple):
    """Where a run stands after a round; without a round, where every run begins.

    `traffic` is all of it after each round; `ledger` is the federation's, as it stood.
    """

    state: Any = None
    clients: Any = None
    records: Sequence[Record] = ()
    traffic: Sequence[Traffic] = ()
    ledger: Mapping[str, Traffic] = MappingProxyType({})
    seconds: float = 0.0


def store(path: Path, progress: Progress) -> None:
    rounds = int(progress.state.round)  # the lists may have grown since
    about = {
        "records": progress.records[:rounds],
        "traffic": progress.traffic[:rounds],
        "ledger": dict(progress.ledger),
        "seconds": progress.seconds,
    }
    save(path, {"state": progress.state, "clients": progress.clients}, about)


def restore(path: Path, driver: Driver, federation: LocalFederation) -> Progress:
    """Where a run stopped; the sites get their states and their books back too."""
    fresh = driver.begin()
    algorithm = driver.algorithm(fresh)
    clients = () if algorithm is None else federation.recall(algorithm, 0)
    like = jax.tree.map(jnp.asarray, {"state": fresh, "clients": clients})
    try:
        about, found = load_about(path), load(path, like)
        refuse_not_finite(path, found, like)
    except ValueError as error:
        raise InputError(str(error)) from None
    demand(path, about, About)
    rounds = int(found["state"].round)
    kinds, lists = set(federation.ledger), (about["records"], about["traffic"])
    if {len(held) for held in lists} != {rounds} or set(about["ledger"]) != kinds:
        raise InputError(f"{path}: its lists do not fit its {rounds} rounds; train anew.")
    federation.generations = {int(found["state"].counted): found["clients"]}
    federation.ledger = {kind: Traffic(*row) for kind, row in about["ledger"].items()}
    return Progress(
        state=found["state"],
        clients=found["clients"],
        records=[Record(*row) for row in about["records"]],
        traffic=[Traffic(*row) for row in about["traffic"]],
        ledger=dict(federation.ledger),
        seconds=about["seconds"],
    )
