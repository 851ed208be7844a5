"""A deployed run on the server's disk: one file after every round, from which it goes on."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.storage.checkpoint import load, save
from proxfl.deploy.server.ledger import Ledger, read_ledger
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.resume import columns_of, empty_columns, length, records_of
from proxfl.tables import InputError


class Books(NamedTuple):
    """What a run knows of its sites: by site, the last step that counted and the rounds it was in.

    `resumed` says how often the run was, and `seconds` how long it ran before.
    """

    ledger: Ledger
    standing: dict[str, int]
    participation: dict[str, int]
    seconds: float = 0.0
    resumed: int = 0


class Progress(NamedTuple):
    """Where a run stands after a round; `traffic` has the bytes up and down after each."""

    state: Any = None
    records: Sequence[Record] = ()
    traffic: Sequence[tuple[int, int]] = ()


def store(path: Path, progress: Progress, books: Books) -> None:
    told = books._asdict() | {"ledger": books.ledger.to_json()}
    held = {
        "state": progress.state,
        "records": columns_of(progress.records),
        "traffic": np.array(progress.traffic, int),
        "books": np.frombuffer(json.dumps(told).encode(), np.uint8),
    }
    save(path, held)


def restore_books(path: Path) -> Books:
    """The part that is needed to reach the sites again."""
    length(path, "['books']")
    with np.load(path, allow_pickle=False) as held:
        told = json.loads(held["['books']"].tobytes())
    ledger = read_ledger(told.pop("ledger"))
    return Books(ledger, **told)._replace(resumed=told["resumed"] + 1)


def restore_progress(path: Path, driver: Driver) -> Progress:
    rounds = length(path, "['records']['round']")
    like: dict[str, Any] = {
        "state": driver.begin(),
        "records": empty_columns(rounds),
        "traffic": np.zeros((rounds, 2), int),
        "books": np.zeros(length(path, "['books']"), np.uint8),
    }
    try:
        found = load(path, jax.tree.map(jnp.asarray, like))
    except ValueError as error:
        raise InputError(f"{error} The problem has changed; start a new run.") from None
    traffic = [(up, down) for up, down in np.asarray(found["traffic"]).tolist()]
    return Progress(found["state"], records_of(found["records"]), traffic)
