"""A run's checkpoint: one file from which it goes on to the same bits."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.checkpoint import load, save
from proxfl.fit.driver import Driver, Record
from proxfl.fit.local import LocalFederation, Traffic
from proxfl.tables import InputError

COLUMNS = {"round": int, "objective": float, "optimality": float, "eta": float, "counted": bool}


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
    records = progress.records[:rounds]
    columns = {
        name: np.array([getattr(record, name) for record in records], kind)
        for name, kind in COLUMNS.items()
    }
    held = {
        "state": progress.state,
        "clients": progress.clients,
        "records": columns,
        "traffic": np.array(progress.traffic[:rounds], int),
        "ledger": np.array(list(progress.ledger.values()), int),
        "seconds": np.array(progress.seconds),
    }
    save(path, held)


def restore(path: Path, driver: Driver, federation: LocalFederation) -> Progress:
    """Where a run stopped; the sites get their states and their books back too."""
    fresh = driver.begin()
    try:
        with np.load(path, allow_pickle=False) as held:
            rounds = len(held["['records']['round']"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise InputError(f"{path}: this is no checkpoint of a run; train anew.") from None
    like: dict[str, Any] = {
        "state": fresh,
        "clients": federation.recall(driver.algorithm(fresh), 0),
        "records": {name: np.zeros(rounds, kind) for name, kind in COLUMNS.items()},
        "traffic": np.zeros((rounds, 2), int),
        "ledger": np.zeros((len(federation.ledger), len(Traffic._fields)), int),
        "seconds": np.zeros(()),
    }
    found = load(path, jax.tree.map(jnp.asarray, like))
    columns = [np.asarray(found["records"][name]).tolist() for name in COLUMNS]
    books = np.asarray(found["ledger"]).tolist()
    ledger = {kind: Traffic(*row) for kind, row in zip(federation.ledger, books, strict=True)}
    federation.generations = {int(found["state"].counted): found["clients"]}
    federation.ledger = dict(ledger)
    return Progress(
        state=found["state"],
        clients=found["clients"],
        records=[Record(*row) for row in zip(*columns, strict=True)],
        traffic=[(up, down) for up, down in np.asarray(found["traffic"]).tolist()],
        ledger=ledger,
        seconds=float(found["seconds"]),
    )
