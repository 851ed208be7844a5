"""What a site keeps for all of its studies: policy, audit log, secret, and approvals.

policy.toml            the owner's rules
audit.jsonl, .head     what was asked, decided and answered
noise.secret           32 random bytes, of which privacy noise is drawn
site.secret            32 random bytes
mask.secret            32 more: the key by which it signs under masks
members.json           whose keys a person here has compared
rows/                  hashes of the rows that were told of
studies/DIGEST/        of each study: its text, who approved it, with whom its sums are, what was
                       agreed, states
"""

import getpass
import hmac
import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from proxfl.deploy.masking.members import signer_of
from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.study import SUFFIX, Study, read_study_at
from proxfl.deploy.site.audit import APPROVED, Audit
from proxfl.deploy.site.confirmed import Confirmed
from proxfl.deploy.site.noise import secret
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.policy_file import policy_in
from proxfl.deploy.site.told_rows import ToldRows
from proxfl.errors import DamageError, InputError
from proxfl.storage import documents
from proxfl.tables import Table

SECRET, MASK = "site.secret", "mask.secret"
STUDIES, STUDY, APPROVAL = "studies", f"study{SUFFIX}", "approved.json"


class Approval(TypedDict):
    """By whom, and when."""

    by: str
    time: float


@dataclass
class Office:
    """A site's own folder; `given` is a policy in place of that in the folder."""

    folder: Path
    given: Policy | None = None
    audit: Audit = field(init=False)
    told_rows: ToldRows = field(init=False)
    confirmed: Confirmed = field(init=False)
    news: dict[str, str] = field(default_factory=dict)  # by study, for the people here

    def __post_init__(self):
        self.audit, self.told_rows = Audit(self.folder), ToldRows(self.folder)
        self.confirmed = Confirmed(self.folder)

    @cached_property
    def signer(self) -> Any:
        """The key by which members know this site; it is used for nothing else."""
        return signer_of(secret(self.folder / MASK))

    @property
    def policy(self) -> Policy:
        return policy_in(self.folder) if self.given is None else self.given

    def fingerprint(self, of_table: str) -> str:
        """What names a table to others, of which nobody can confirm a guess."""
        return self.key(of_table).hex()

    def key(self, purpose: str) -> bytes:
        """Bytes for one purpose that only this site can make, and makes again."""
        return hmac.digest(secret(self.folder / SECRET), purpose.encode(), "sha256")

    def tell_of(self, site: str, study: Study, table: Table) -> None:
        """Note which rows a study is about, before anything is told of them, whatever it is that
        the server asks first; refuse those that differ in a few from others that were told of."""
        self.told_rows.once(site, table, study.spec, self.policy.count)

    def place(self, study: str) -> Path:
        return self.folder / STUDIES / study

    def text_at(self, study: str) -> Path:
        """Where the text of a study is."""
        return self.place(study) / STUDY

    def studies(self) -> list[Study]:
        """Those that take part or wait, in no order."""
        found = sorted((self.folder / STUDIES).glob(f"*/{STUDY}"))
        return [self.study_at(path) for path in found]

    def study_at(self, path: Path) -> Study:
        """A study that was kept; its folder has the name of the digest that a person approves."""
        study = read_study_at(path)
        if study.id != path.parent.name:
            raise DamageError(f"{path}: {documents.ALTERED}.")
        return study

    def keep(self, study: Study) -> None:
        if not self.text_at(study.id).exists():
            private_folder(self.place(study.id))
            study.write(self.text_at(study.id), private=True)

    def approved(self, study: str) -> bool:
        path = self.place(study) / APPROVAL
        return path.exists() and bool(documents.read_json(path, Approval))

    def approve(self, study: Study) -> None:
        """A person's word for a study that waits."""
        if self.approved(study.id):
            raise InputError(f"study {study.name!r} is approved already.")
        word = Approval(by=getpass.getuser(), time=round(time.time(), 3))
        self.audit.enter(APPROVED, study.id, name=study.name, by=word["by"])
        documents.write_json(self.place(study.id) / APPROVAL, word, private=True)

    def spent(self, study: str) -> float:
        """The cost of the answers with noise to all other studies."""
        return math.fsum(cost for one, cost in self.audit.noised.values() if one != study)

    def asked(self, study: str) -> int:
        """The questions that count for a study: its own if it is approved, else all such ones."""
        if self.approved(study):
            return self.audit.answers[study]
        return sum(n for one, n in self.audit.answers.items() if not self.approved(one))
