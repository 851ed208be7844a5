"""With which sites a site's rows were added up: two sums that differ in one site tell its part.

Masks hide what a site adds to a sum over all members of a study. A second study without that site
has the sum without it, and the difference is what masks hid; also where the second is not masked,
or is about a few rows more or fewer, or a file that has changed a little since. So a site keeps,
beside each study that it takes part in, the members and the columns; what a site that is left out
would have against it, the others have in its place.

Two sums of the same sites, one by rows and one in which all sites count alike, are two equations
for their parts: who knows all parts but two has these as well.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.study import Study
from proxfl.errors import DamageError
from proxfl.storage import documents

FILE = "company.json"
ROWS = "samples"  # the weights of scores and of table one


class Company(NamedTuple):
    """Whose sums a study has, about which columns, by which weights of the sites, and whether masks
    hide the parts of them."""

    name: str
    masked: bool
    sites: list[str]
    columns: list[str]
    weights: str

    def hidden_with(self, other: "Company") -> bool:
        """Whether masks hide the parts of either, and the two have columns in common."""
        return (self.masked or other.masked) and bool(set(self.columns) & set(other.columns))

    def apart(self, other: "Company") -> list[str]:
        """The sites that are in one of two studies alone, if masks hide their parts."""
        return sorted(set(self.sites) ^ set(other.sites)) if self.hidden_with(other) else []

    def weighs_otherwise(self, other: "Company") -> bool:
        """Whether the same sites count otherwise in two studies, if masks hide their parts."""
        alike = set(self.sites) == set(other.sites)
        return alike and self.weights != other.weights and self.hidden_with(other)


def company_of(study: Study, columns: Sequence[str]) -> Company:
    weights = study.spec.weights if study.ask in ("train", "path") else ROWS
    return Company(study.name, study.masked, list(study.sites), list(columns), weights)


def earlier(studies: Path, study: Study, begun: Iterable[str]) -> list[Company]:
    """Those of the other studies that the site takes part in, the `begun` at least; none for a
    study that was begun itself."""
    if (studies / study.id / FILE).exists():
        return []
    for path in (studies / one / FILE for one in begun if one != study.id):
        if not path.exists():
            raise DamageError(f"{path}: there is no such file any more; restore it.")
    found = sorted(studies.glob(f"*/{FILE}"))
    return [Company(**documents.read_json(path, Company)) for path in found]


def keep(folder: Path, company: Company) -> None:
    """Note, in a study's folder, that the site takes part in it."""
    path = private_folder(folder) / FILE
    if not path.exists():
        held: dict[str, Any] = company._asdict()
        documents.write_json(path, held, private=True)
