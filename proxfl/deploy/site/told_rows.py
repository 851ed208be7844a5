"""Of which rows a site has told anything: two tables that differ in few rows tell those rows.

A row is known by a hash of all its cells in the site's file, so that the order of rows and the
columns of a study do not matter; a row in which a value was changed is another, and one of weight 0
is none. So are weights, offsets and targets, each with their rows: two that differ in few rows are
not used in turn. The hashes stay in the site's folder. Columns that differ a little in every row,
and sums and differences of three or more tables, are not looked at: SECURITY.md.
"""

from pathlib import Path

import numpy as np

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.columns import row_sets
from proxfl.errors import DamageError
from proxfl.storage.documents import ALTERED, digest, read_bytes
from proxfl.storage.files import write_bytes
from proxfl.tables import Table
from proxfl.tables.rows import row_hashes
from proxfl.train.spec import Spec

FOLDER = "rows"


class ToldRows:
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

    def once(self, site: str, table: Table, spec: Spec, fewest: int) -> None:
        """Refuse to tell of rows that differ in a few from those of an earlier answer."""
        mine = list(row_sets(table, spec, row_hashes(Path(table.source))[table.places]))
        if any(0 < apart(one, other) < fewest for other in self.before() for one in mine):
            raise BadMessage(
                f"Site {site} would tell of rows that differ in fewer than {fewest} from those "
                "it told of before, and the difference may be single rows; restore the data, "
                "or ask about as many rows more or fewer."
            )
        for one in mine:
            data = one.tobytes()
            path = private_folder(self.folder) / digest(data)
            if not path.exists():
                write_bytes(path, data, private=True)


def apart(one: np.ndarray, other: np.ndarray) -> int:
    """How many rows are in one of two sets and not in the other, counted as often as they occur."""
    values, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    sign = np.repeat([1, -1], [len(one), len(other)])
    return int(np.abs(np.bincount(places, sign, len(values))).sum())
