"""A deployed run on the server's disk: one file after every round, from which it goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from proxfl.deploy.protocol.wire import NEVER
from proxfl.deploy.server.ledger import Ledger, read_ledger
from proxfl.errors import InputError
from proxfl.storage.checkpoint import load, load_about, save
from proxfl.train.drivers.driver import Driver, Record


class Books(NamedTuple):
    """All that a run knows but its state, after each round.

    By site, `standing` is the last step that counted and `participation` the rounds it was in;
    `traffic` has the bytes up and down after each round. `resumed` says how often the run was, and
    `seconds` how long it ran before.
    """

    ledger: Ledger
    standing: dict[str, int]
    participation: dict[str, int]
    records: Sequence[Record] = ()
    traffic: Sequence[tuple[int, int]] = ()
    seconds: float = 0.0
    resumed: int = 0


def store(path: Path, state: Any, books: Books) -> None:
    save(path, state, books._asdict() | {"ledger": books.ledger.to_dict()})


def books_at(path: Path, sites: Sequence[str]) -> Books:
    """Those of the run that was interrupted there, or empty ones."""
    if not path.exists():
        return Books(Ledger(), dict.fromkeys(sites, NEVER), dict.fromkeys(sites, 0))
    try:
        held = load_about(path)
        read = {
            "ledger": read_ledger(held["ledger"]),
            "records": [Record(*row) for row in held["records"]],
            "traffic": [(up, down) for up, down in held["traffic"]],
            "resumed": held["resumed"] + 1,
        }
        return Books(**held | read)
    except (ValueError, KeyError):
        raise InputError(f"{path}: this is no checkpoint of a run; train anew.") from None


def restore_state(path: Path, driver: Driver) -> Any:
    try:
        return load(path, jax.tree.map(jnp.asarray, driver.begin()))
    except ValueError as error:
        raise InputError(f"{error} The problem has changed; start a new run.") from None
