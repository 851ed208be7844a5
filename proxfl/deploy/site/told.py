"""Of which rows a site has told anything: two tables that differ in few rows tell those rows.

A row is known by a hash of all its cells in the site's file, so that the order of rows and the
columns of a study do not matter; a row in which a value was changed is another. The hashes stay in
the site's folder. Sums and differences of three or more tables are not looked at: SECURITY.md.
"""

from pathlib import Path

import numpy as np

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.errors import DamageError
from proxfl.storage.documents import ALTERED, digest, read_bytes
from proxfl.storage.files import write_bytes
from proxfl.tables import Table
from proxfl.tables.rows import row_hashes

FOLDER = "rows"


class Told:
    """The sets of rows that a site's answers were about, in files named by their content."""

    def __init__(self, folder: Path):
        self.folder = folder / FOLDER

    def before(self) -> list[np.ndarray]:
        found = sorted(self.folder.glob("[!.]*")) if self.folder.exists() else []
        return [np.frombuffer(self.read(path), np.uint64) for path in found]

    def read(self, path: Path) -> bytes:
        data = read_bytes(path)
        if digest(data) != path.name:
            raise DamageError(f"{path}: {ALTERED}.")
        return data

    def once(self, site: str, table: Table, fewest: int) -> None:
        """Refuse to tell of rows that differ in a few from those of an earlier answer."""
        mine = np.sort(row_hashes(Path(table.source))[table.places])
        for other in self.before():
            if 0 < apart(mine, other) < fewest:
                raise BadMessage(
                    f"Site {site} would tell of rows that differ in fewer than {fewest} from those "
                    "it told of before, and the difference may be single rows; restore the data, "
                    "or ask about as many rows more or fewer."
                )
        data = mine.tobytes()
        path = private_folder(self.folder) / digest(data)
        if not path.exists():
            write_bytes(path, data, private=True)


def apart(one: np.ndarray, other: np.ndarray) -> int:
    """How many rows are in one of two sets and not in the other, counted as often as they occur."""
    values, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    sign = np.repeat([1, -1], [len(one), len(other)])
    return int(np.abs(np.bincount(places, sign, len(values))).sum())
