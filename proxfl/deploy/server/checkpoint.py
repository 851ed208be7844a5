"""A deployed run on the server's disk: one file after every round, from which it goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from proxfl.deploy.server.ledger import Ledger, read_ledger
from proxfl.storage.checkpoint import load, load_about, save
from proxfl.tables import InputError
from proxfl.train.drivers.driver import Driver, Record


class Books(NamedTuple):
    """What a run knows of its sites: by site, the last step that counted and the rounds it was in.

    `resumed` says how often the run was, and `seconds` how long it ran before.
    """

    ledger: Ledger
    standing: dict[str, int]
    participation: dict[str, int]
    seconds: float = 0.0
    resumed: int = 0


class Position(NamedTuple):
    """Where a run stands after a round; `traffic` has the bytes up and down after each."""

    state: Any = None
    records: Sequence[Record] = ()
    traffic: Sequence[tuple[int, int]] = ()


def store(path: Path, position: Position, books: Books) -> None:
    about = {
        "books": books._asdict() | {"ledger": books.ledger.to_dict()},
        "records": position.records,
        "traffic": position.traffic,
    }
    save(path, position.state, about)


def restore_books(path: Path) -> Books:
    """The part that is needed to reach the sites again."""
    held = about(path)["books"]
    ledger = read_ledger(held.pop("ledger"))
    return Books(ledger, **held)._replace(resumed=held["resumed"] + 1)


def restore_position(path: Path, driver: Driver) -> Position:
    held = about(path)
    try:
        state = load(path, jax.tree.map(jnp.asarray, driver.begin()))
    except ValueError as error:
        raise InputError(f"{error} The problem has changed; start a new run.") from None
    records = [Record(*row) for row in held["records"]]
    return Position(state, records, [(up, down) for up, down in held["traffic"]])


def about(path: Path) -> Any:
    try:
        return load_about(path)
    except ValueError as error:
        raise InputError(str(error)) from None
