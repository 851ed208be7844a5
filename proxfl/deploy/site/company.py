"""With which sites a site's rows were added up: two sums that differ in one site tell its part.

Masks hide what a site adds to a sum over all members of a study. A second study without that site,
about the same rows of the others, has the sum without it, and the difference is what masks hid. So
a site keeps, beside each masked study that it takes part in, the members, the columns and a digest
of its own rows; what a site that is left out would have against it, the others have in its place.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.site.columns import row_sets
from proxfl.storage import documents
from proxfl.storage.documents import digest
from proxfl.tables import Table
from proxfl.tables.rows import row_hashes

FILE = "company.json"


class CompanyFile(TypedDict):
    """As `Company`."""

    name: str
    sites: list[str]
    columns: list[str]
    rows: str


class Company(NamedTuple):
    """Whose sums a study has, about which columns, and a digest of this site's rows in them."""

    name: str
    sites: Sequence[str]
    columns: Sequence[str]
    rows: str

    def apart(self, other: "Company | None") -> list[str]:
        """The sites that are in one of two studies alone, if the two are about the same."""
        if other is None or self.rows != other.rows or not set(self.columns) & set(other.columns):
            return []
        return sorted(set(self.sites) ^ set(other.sites))


def company_of(study: Study, table: Table, columns: Sequence[str]) -> Company:
    rows = next(row_sets(table, study.spec, row_hashes(Path(table.source))[table.places]))
    return Company(study.name, list(study.sites), list(columns), digest(rows.tobytes()))


def earlier(studies: Path, study: Study) -> list[Company]:
    """Those of the other studies that were begun; none for a study that was itself."""
    if (studies / study.id / FILE).exists():
        return []
    found = sorted(studies.glob(f"*/{FILE}"))
    return [Company(**documents.read_json(path, CompanyFile)) for path in found]


def keep(folder: Path, company: Company) -> None:
    """Note, in a study's folder, that the site takes part in it."""
    path = private_folder(folder) / FILE
    if not path.exists():
        held: dict[str, Any] = company._asdict()
        documents.write_json(path, held, private=True)
