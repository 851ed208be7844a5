"""A run's checkpoint: one file from which it goes on to the same bits."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.storage.checkpoint import load, save
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.local import LocalFederation, Traffic
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
    held = {
        "state": progress.state,
        "clients": progress.clients,
        "records": columns_of(progress.records[:rounds]),
        "traffic": np.array(progress.traffic[:rounds], int),
        "ledger": np.array(list(progress.ledger.values()), int),
        "seconds": np.array(progress.seconds),
    }
    save(path, held)


def columns_of(records: Sequence[Record]) -> dict[str, np.ndarray]:
    """The records as arrays, one for each of their fields."""
    return {
        name: np.array([getattr(record, name) for record in records], kind)
        for name, kind in COLUMNS.items()
    }


def empty_columns(rounds: int) -> dict[str, np.ndarray]:
    return {name: np.zeros(rounds, kind) for name, kind in COLUMNS.items()}


def length(path: Path, name: str) -> int:
    """How long an array of a checkpoint is, which its reader must know beforehand."""
    try:
        with np.load(path, allow_pickle=False) as held:
            return len(held[name])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise InputError(f"{path}: this is no checkpoint of a run; train anew.") from None


def records_of(columns: Mapping[str, Any]) -> list[Record]:
    lists = [np.asarray(columns[name]).tolist() for name in COLUMNS]
    return [Record(*row) for row in zip(*lists, strict=True)]


def restore(path: Path, driver: Driver, federation: LocalFederation) -> Progress:
    """Where a run stopped; the sites get their states and their books back too."""
    fresh, rounds = driver.begin(), length(path, "['records']['round']")
    like: dict[str, Any] = {
        "state": fresh,
        "clients": federation.recall(driver.algorithm(fresh), 0),
        "records": empty_columns(rounds),
        "traffic": np.zeros((rounds, 2), int),
        "ledger": np.zeros((len(federation.ledger), len(Traffic._fields)), int),
        "seconds": np.zeros(()),
    }
    found = load(path, jax.tree.map(jnp.asarray, like))
    books = np.asarray(found["ledger"]).tolist()
    ledger = {kind: Traffic(*row) for kind, row in zip(federation.ledger, books, strict=True)}
    federation.generations = {int(found["state"].counted): found["clients"]}
    federation.ledger = dict(ledger)
    return Progress(
        state=found["state"],
        clients=found["clients"],
        records=records_of(found["records"]),
        traffic=[(up, down) for up, down in np.asarray(found["traffic"]).tolist()],
        ledger=ledger,
        seconds=float(found["seconds"]),
    )
