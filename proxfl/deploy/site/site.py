"""One site: its table, read here, and what it agrees to tell of it.

Before the first round the server asks for a summary of the table and then says what all sites'
summaries come to; from that the site prepares its rows, once, and keeps the agreement for when it
is restarted. It takes one agreement in a study and tells of one table, since two of either, made to
differ in little, give rows away.
"""

import json
import logging
from pathlib import Path
from typing import Any, TypedDict

import jax
import numpy as np

from proxfl.deploy.protocol.experiment import Experiment, method_of
from proxfl.deploy.protocol.study import Study, read_table
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.account import account_of
from proxfl.deploy.site.asked import Asked
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Proposal, too_large
from proxfl.deploy.site.worker import Tasks, Worker
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.storage import documents
from proxfl.storage.typed import misfit
from proxfl.tables import Table
from proxfl.tables.sites import arranged
from proxfl.train.agreement import Agreement, problem_of, shards_for, summarise
from proxfl.train.contents import AgreementFile
from proxfl.train.privacy import noise_of
from proxfl.train.spec import Spec
from proxfl.train.tasks import TASKS

log = logging.getLogger("proxfl.deploy")

AGREEMENT = "agreement.json"


class Kept(TypedDict):
    """agreement.json: what was agreed on, and for which data."""

    fingerprint: str
    agreement: AgreementFile


def tasks_of(spec: Spec) -> Tasks:
    """What a site answers: Hessians only where the study may need them, which tell more.

    With privacy noise, nothing but rounds.
    """
    if noise_of(spec) is not None:
        return {}
    needed = {"newton": spec.algorithm in ("auto", "newton"), "information": spec.inference}
    return {name: task for name, task in TASKS.items() if needed.get(name, True)}


class Site:
    """A table, and the study it takes part in once the sites have agreed."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.study, self.name, self.table, self.office = study, name, table, office
        self.folder = office.place(study.id)
        self.path = self.folder / AGREEMENT
        self.made: Experiment | None = None

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return read_table(study.spec, data)

    def worker(self) -> Worker:
        """What answers the server's messages for this site."""
        setup = {"summary": self.summary, "agree": self.agree}
        where = (self.study.id, self.study.sites, self.name, self.folder)
        tasks, asked = tasks_of(self.study.spec), Asked(self.office, self.study.id)
        account = account_of(self.office, self.study)
        # Under noise, to fail where an answer hangs on few rows would tell of them.
        about = Proposal(self.study, self.table, site=self.name)
        share = self.office.policy.share_for(about) if account is None else 0.0
        return Worker(*where, self.experiment, tasks, setup, share, asked, account)

    @property
    def fingerprint(self) -> str:
        """What names the table to others."""
        return self.office.fingerprint(self.table.fingerprint)

    def summary(self, question: dict[str, Any]) -> dict[str, Value]:
        """What a site tells before anything else; see `proxfl.train.agreement.summarise`."""
        self.office.tell_of(self.name, self.study, self.table)
        told = summarise(self.table, self.study.spec) | {"fingerprint": self.fingerprint}
        return {"summary": json.dumps(told)}

    def agree(self, question: dict[str, Any]) -> dict[str, Value]:
        """Take what the server made of all summaries, and keep it."""
        try:
            told = json.loads(str(question.get("agreement")))
        except (ValueError, RecursionError) as error:
            raise BadMessage("The agreement cannot be read.") from error
        if wrong := misfit(told, AgreementFile):
            raise BadMessage(f"The agreement cannot be read: {wrong}.")
        agreement = Agreement.from_dict(told)
        held = {"fingerprint": self.fingerprint, "agreement": agreement.to_dict()}
        if (before := self.agreed()) and before != held:
            raise BadMessage(
                f"Site {self.name} has agreed to something else in this study, or on other data; "
                "it agrees once. Resume, or begin another study."
            )
        self.office.tell_of(self.name, self.study, self.table)
        self.made = self.prepared(agreement)
        documents.write_json(self.path, held, private=True)
        return {}

    def agreed(self) -> dict[str, Any]:
        """What this site has agreed to, as it is on the disk; nothing, if that is damaged."""
        if not self.path.exists():
            return {}
        try:
            return documents.read_json(self.path, Kept)
        except InputError as error:
            log.warning("Site %s waits for the server to agree anew: %s", self.name, error)
            return {}

    def experiment(self) -> Experiment:
        """What was agreed on, by this process or by one before it."""
        if self.made is None:
            held = self.agreed()
            if not held:
                raise BadMessage(f"Site {self.name} has not agreed to anything yet.")
            if held["fingerprint"] != self.fingerprint:
                raise BadMessage(
                    f"Site {self.name} holds other data than when it agreed; restore them, or "
                    "begin another study."
                )
            self.made = self.prepared(Agreement.from_dict(held["agreement"]))
        return self.made

    def prepared(self, agreement: Agreement) -> Experiment:
        spec, sites = self.study.spec, self.study.sites
        try:
            self.check(agreement)
            with precision(np.float64):
                table = arranged(self.table, agreement.features)
                shards = shards_for(spec, [table], agreement, np.ones(1))
                shard = jax.tree.map(lambda a: a[0], shards)
                parts = (method_of(spec), problem_of(spec, agreement), spec.seed, sites, shard)
                return Experiment(self.study.id, *parts)
        except (ValueError, TypeError) as error:
            # The server learns that, not why: the reason may tell of a row.
            log.warning("Site %s cannot use the agreement: %s", self.name, error)
            raise BadMessage(
                f"The agreement does not fit the table of site {self.name}; its log says why."
            ) from error

    def check(self, agreement: Agreement) -> None:
        """Refuse what does not fit this site's own file and table."""
        sites = self.study.sites
        if agreement.sites != sites:
            raise InputError(f"It is between {agreement.sites}, not {sites}.")
        if agreement.rows[sites.index(self.name)] != self.table.rows:
            raise InputError(f"It gives this site other than {self.table.rows} rows.")
        refuse_unsound(agreement, self.table)
        size = (self.table.rows, len(agreement.features), len(agreement.targets))
        for objection in too_large(self.office.policy, *size):
            raise InputError(f"{objection.sentence}: {objection.detail}.")


def refuse_unsound(agreement: Agreement, table: Table) -> None:
    """Refuse features that a table does not have, and numbers for them that cannot be."""
    if sorted(agreement.features) != sorted(table.features):
        raise InputError("It names other features than this table has.")
    for name in ("centre", "scale", "unit", "fill"):
        numbers = np.array(getattr(agreement, name), float)
        sound = numbers.shape == (len(agreement.features),) and np.isfinite(numbers).all()
        if not sound or (name in ("scale", "unit") and not (numbers > 0).all()):
            raise InputError(f"Its {name} is not one sound number for each feature.")
