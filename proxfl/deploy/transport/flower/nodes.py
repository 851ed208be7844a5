"""Which nodes are connected: one look into the SuperLink's database, for which nobody is asked."""

import contextlib
import sqlite3
import time
from pathlib import Path

from proxfl.deploy.transport.flower.private_names import ONLINE, look


def online(database: Path) -> list[bytes]:
    """Their public keys; none, where the database cannot be read, as when it is made."""
    try:
        address = f"{database.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=0.0)) as base:
            return [key for (key,) in look(base, ONLINE, time.time())]
    except sqlite3.Error:
        return []
