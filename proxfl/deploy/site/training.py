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
from proxfl.deploy.site.agreeing import (
    refuse_another,
    refuse_other_data,
    refuse_unsound,
    told_as,
    usable,
)
from proxfl.deploy.site.hazard import coarse
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.seat import Seat
from proxfl.deploy.site.worker import Limits, Tasks, Worker
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.storage import documents
from proxfl.tables import Table
from proxfl.tables.sites import arranged
from proxfl.train.agreement import Agreement, problem_of, shards_for, summarise
from proxfl.train.privacy import noise_of
from proxfl.train.spec import Spec
from proxfl.train.tasks import TASKS

log = logging.getLogger("proxfl.deploy")

AGREEMENT = "agreement.json"


class AgreedFile(TypedDict):
    """agreement.json: what was agreed on, and for which data."""

    fingerprint: str
    agreement: Agreement


def tasks_of(spec: Spec) -> Tasks:
    """What a site answers: Hessians only where the study may need them, which tell more.

    With privacy noise, nothing but rounds.
    """
    if noise_of(spec) is not None:
        return {}
    needed = {"newton": spec.algorithm in ("auto", "newton")}
    needed |= dict.fromkeys(("hessian", "information"), spec.inference)
    return {name: task for name, task in TASKS.items() if needed.get(name, True)}


class TrainingSite:
    """A table, and the study it takes part in once the sites have agreed."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.seat = Seat(study, name, table, office)
        self.path = self.seat.folder / AGREEMENT
        self.made: Experiment | None = None

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return read_table(study.spec, data)

    def worker(self) -> Worker:
        """What answers the server's messages for this site."""
        seat, study = self.seat, self.seat.study
        setup = {"summary": self.summary, "agree": self.agree}
        where = (study.id, study.sites, seat.name, seat.folder)
        limits = Limits(seat.shares, seat.questions, seat.account, secret=True)
        tasks = tasks_of(study.spec)
        if "survival" in tasks:
            tasks = {**tasks, "survival": coarse(tasks["survival"], seat.office.policy.count)}
        return Worker(*where, self.experiment, tasks, setup, limits)

    def summary(self, question: dict[str, Any]) -> dict[str, Value]:
        """What a site tells before anything else; see `proxfl.train.agreement.summarise`."""
        seat = self.seat
        seat.tell_of_rows()
        told = summarise(seat.table, seat.study.spec) | {"fingerprint": seat.fingerprint}
        return {"summary": json.dumps(told)}

    def agree(self, question: dict[str, Any]) -> dict[str, Value]:
        """Take what the server made of all summaries, and keep it."""
        told = told_as(question, "agreement", Agreement)
        agreement = Agreement.from_dict(told)
        held = {"fingerprint": self.seat.fingerprint, "agreement": agreement.to_dict()}
        refuse_another(self.seat, self.agreed(), held)
        self.seat.tell_of_rows()
        self.made = self.prepared(agreement)
        documents.write_json(self.path, held, private=True)
        return {}

    def agreed(self) -> dict[str, Any]:
        """What this site has agreed to, as it is on the disk; nothing, if that is damaged."""
        if not self.path.exists():
            return {}
        try:
            return documents.read_json(self.path, AgreedFile)
        except InputError as error:
            log.warning("Site %s waits for the server to agree anew: %s", self.seat.name, error)
            return {}

    def experiment(self) -> Experiment:
        """What was agreed on, by this process or by one before it."""
        if self.made is None:
            held = self.agreed()
            if not held:
                raise BadMessage(f"Site {self.seat.name} has not agreed to anything yet.")
            refuse_other_data(self.seat, held)
            self.made = self.prepared(Agreement.from_dict(held["agreement"]))
        return self.made

    def prepared(self, agreement: Agreement) -> Experiment:
        study = self.seat.study
        spec = study.spec
        with usable(self.seat, "agreement does"), precision(np.float64):
            self.check(agreement)
            table = arranged(self.seat.table, agreement.features)
            shards = shards_for(spec, [table], agreement, np.ones(1))
            shard = jax.tree.map(lambda a: a[0], shards)
            parts = (method_of(spec), problem_of(spec, agreement), spec.seed, study.sites, shard)
            return Experiment(study.id, *parts)

    def check(self, agreement: Agreement) -> None:
        """Refuse what does not fit this site's own file and table."""
        sites, rows = self.seat.study.sites, self.seat.table.rows
        if agreement.sites != sites:
            raise InputError(f"It is between {agreement.sites}, not {sites}.")
        if agreement.rows[sites.index(self.seat.name)] != rows:
            raise InputError(f"It gives this site other than {rows} rows.")
        refuse_unsound(self.seat, agreement)
