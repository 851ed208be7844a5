"""A run's checkpoint: one file from which it goes on to the same bits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from proxfl.errors import InputError
from proxfl.storage.checkpoint import load, load_about, save
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.local import LocalFederation, Traffic


class Progress(NamedTuple):
    """Where a run stands after a round; without a round, where every run begins.

    `traffic` has the bytes up and down after each round; `ledger` is the federation's, as it stood.
    """

    state: Any = None
    clients: Any = None
    records: Sequence[Record] = ()
    traffic: Sequence[tuple[int, int]] = ()
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
    like = {"state": fresh, "clients": federation.recall(driver.algorithm(fresh), 0)}
    try:
        about, found = load_about(path), load(path, jax.tree.map(jnp.asarray, like))
    except ValueError as error:
        raise InputError(str(error)) from None
    federation.generations = {int(found["state"].counted): found["clients"]}
    federation.ledger = {kind: Traffic(*row) for kind, row in about["ledger"].items()}
    return Progress(
        state=found["state"],
        clients=found["clients"],
        records=[Record(*row) for row in about["records"]],
        traffic=[(up, down) for up, down in about["traffic"]],
        ledger=dict(federation.ledger),
        seconds=about["seconds"],
    )
