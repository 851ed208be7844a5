"""A deployed run on the server's disk: one file after every round, from which it goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp

from proxfl.deploy.protocol.wire import NEVER
from proxfl.deploy.server.ledger import Ledger, read_ledger
from proxfl.errors import InputError
from proxfl.storage.checkpoint import load, load_about, refuse_not_finite, save
from proxfl.storage.documents import demand
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.local import Traffic


class LedgerFile(TypedDict):
    books: list[tuple[str, str, str, int, int, int, int]]
    exchanges: dict[str, int]
    faults: list[tuple[float, int, str, str]]


class BooksFile(TypedDict):
    """What the checkpoint holds beside the state: `Books`, as JSON has them."""

    ledger: LedgerFile
    standing: dict[str, int]
    participation: dict[str, int]
    records: list[tuple[int, float, float, float, bool]]
    traffic: list[tuple[int, int, int]]
    seconds: float
    resumed: int


class Books(NamedTuple):
    """All that a run knows but its state, after each round.

    By site, `standing` is the last step that counted and `participation` the rounds it was in;
    `traffic` is all of it after each round. `resumed` says how often the run was, and
    `seconds` how long it ran before.
    """

    ledger: Ledger
    standing: dict[str, int]
    participation: dict[str, int]
    records: Sequence[Record] = ()
    traffic: Sequence[Traffic] = ()
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
    except ValueError as error:
        raise InputError(str(error)) from None
    demand(path, held, BooksFile)
    if not held["standing"].keys() == held["participation"].keys() == set(sites):
        raise InputError(f"{path}: it is of a run over other sites; start a new run.")
    if len(held["records"]) != len(held["traffic"]):
        raise InputError(f"{path}: its lists are of different lengths; start a new run.")
    read = {
        "ledger": read_ledger(held["ledger"]),
        "records": [Record(*row) for row in held["records"]],
        "traffic": [Traffic(*row) for row in held["traffic"]],
        "resumed": held["resumed"] + 1,
    }
    return Books(**{key: held[key] for key in Books._fields} | read)


def restore_state(path: Path, driver: Driver) -> Any:
    like = jax.tree.map(jnp.asarray, driver.begin())
    try:
        found = load(path, like)
        refuse_not_finite(path, found, like)
    except ValueError as error:
        raise InputError(f"{error} The problem has changed; start a new run.") from None
    return found
