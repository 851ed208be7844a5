"""A site's part of a path that is not masked: its own sums over rows, told to the server.

enter   its columns' names, its labels unless a schema has them, and what names its table
agree   what all sites' sums come to for all rows, and for those that each fold leaves; once
sums    a question of the path, for the site's sums
"""

import json
import logging
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from proxfl.deploy.masking.messages import Charter, charter_in, question_in
from proxfl.deploy.masking.path import PathOfSums, models_in, refuse_path
from proxfl.deploy.masking.path_answering import PathAnswers
from proxfl.deploy.masking.training import SETUP
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.protocol.study import Study, read_table
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.asked import Asked
from proxfl.deploy.site.guard import guards
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy, too_large
from proxfl.deploy.site.proposal import Proposal
from proxfl.deploy.site.site import AGREEMENT, refuse_unsound, tasks_of
from proxfl.deploy.site.worker import Worker
from proxfl.errors import InputError
from proxfl.storage import documents
from proxfl.storage.typed import misfit
from proxfl.tables import Table
from proxfl.train.agreement import Agreement
from proxfl.train.contents import AgreementFile
from proxfl.train.spec import declared, loss_of
from proxfl.train.tasks import TASKS

log = logging.getLogger("proxfl.deploy")


class Agreed(TypedDict):
    """agreement.json: what was agreed on for every set of rows, and for which data."""

    fingerprint: str
    charter: str
    agreements: list[AgreementFile]


def path_at(
    study: Study, site: str, table: Table, folder: Path, charter: Charter, policy: Policy
) -> tuple[PathOfSums, PathAnswers]:
    """The program of a study, and what a site answers to it, by its rules on rows."""
    if study.choice is None:
        raise ValueError("A study of a path has a choice.")
    refuse_path(study.spec, study.choice, len(study.sites), study.masked)
    run = PathOfSums(study.spec, len(study.sites), study.choice, study.folds, *charter)
    number = study.sites.index(site)
    share = policy.share_for(Proposal(study, table, site=site))
    return run, PathAnswers(run, number, table, folder, *guards(share))


class PathSite:
    """A table, and the path that it is asked for once the sites have agreed."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.study, self.name, self.table, self.office = study, name, table, office
        self.folder = office.place(study.id)
        self.path = self.folder / AGREEMENT
        self.asked = Asked(office, study.id)
        self.made: PathAnswers | None = None

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return read_table(study.spec, data)

    def worker(self) -> Worker:
        setup = {"enter": self.enter, "agree": self.agree, "sums": self.sums}
        where = (self.study.id, self.study.sites, self.name, self.folder)
        return Worker(*where, self.nothing, {}, setup)

    def nothing(self) -> Experiment:
        raise BadMessage(f"Site {self.name} is asked for the sums of a path, and nothing else.")

    @property
    def fingerprint(self) -> str:
        return self.office.fingerprint(self.table.fingerprint)

    def enter(self, question: dict[str, Value]) -> dict[str, Value]:
        self.office.tell_of(self.name, self.study, self.table)
        known, target = declared(self.study.spec), loss_of(self.study.spec).target
        labels = () if known else tuple(target.labels(self.table.y))
        self.asked.enter("enter", setup=True)
        charter = Charter(tuple(self.table.features), labels)
        return {"charter": charter.text, "fingerprint": self.fingerprint}

    def agree(self, question: dict[str, Value]) -> dict[str, Value]:
        """Take what the server made of all sums, and keep it."""
        try:
            told = json.loads(str(question.get("agreements")))
        except (ValueError, RecursionError) as error:
            raise BadMessage("The agreements cannot be read.") from error
        if wrong := misfit(told, list[AgreementFile]):
            raise BadMessage(f"The agreements cannot be read: {wrong}.")
        held = Agreed(
            fingerprint=self.fingerprint,
            charter=charter_in(question.get("charter")).text,
            agreements=told,
        )
        if (before := self.agreed()) is not None and before != held:
            raise BadMessage(
                f"Site {self.name} has agreed to something else in this study, or on other data; "
                "it agrees once. Resume, or begin another study."
            )
        self.office.tell_of(self.name, self.study, self.table)
        self.made = self.prepared(held["charter"], told)
        documents.write_json(self.path, dict(held), private=True)
        self.asked.enter("agree", setup=True)
        return {}

    def agreed(self) -> Agreed | None:
        if not self.path.exists():
            return None
        found: Any = documents.read_json(self.path, Agreed)
        return Agreed(**{key: found[key] for key in Agreed.__annotations__})

    def prepared(self, charter: str, told: list[AgreementFile]) -> PathAnswers:
        """What answers, by the agreements for all rows and for those that each fold leaves."""
        try:
            agreements = [Agreement.from_dict(one) for one in told]
            self.check(agreements)
            made = self.answering(charter_in(charter))
        except (ValueError, TypeError) as error:
            # The server learns that, not why: the reason may tell of a row.
            log.warning("Site %s cannot use the agreements: %s", self.name, error)
            raise BadMessage(
                f"The agreements do not fit the table of site {self.name}; its log says why."
            ) from error
        made.run.agreement, made.run.agreements = agreements[0], agreements
        return made

    def answering(self, charter: Charter) -> PathAnswers:
        about = (self.study, self.name, self.table, self.folder, charter, self.office.policy)
        return path_at(*about)[1]

    def check(self, agreements: list[Agreement]) -> None:
        if len(agreements) != len(self.study.folds) + 1:
            raise InputError("There is not one agreement for each set of rows.")
        for agreement in agreements:
            refuse_unsound(agreement, self.table)
            size = (self.table.rows, len(agreement.features), len(agreement.targets))
            for objection in too_large(self.office.policy, *size):
                raise InputError(f"{objection.sentence}: {objection.detail}.")

    def answers(self, setup: bool, charter: Charter) -> PathAnswers:
        """What answers; before an agreement, questions of its making only."""
        if self.made is None and (held := self.agreed()) is not None:
            if held["fingerprint"] != self.fingerprint:
                raise BadMessage(
                    f"Site {self.name} holds other data than when it agreed; restore them, or "
                    "begin another study."
                )
            self.made = self.prepared(held["charter"], held["agreements"])
        if self.made is not None:
            return self.made
        if not setup:
            raise BadMessage(f"Site {self.name} has not agreed to anything yet.")
        self.office.tell_of(self.name, self.study, self.table)
        return self.answering(charter)

    def sums(self, question: dict[str, Value]) -> dict[str, Value]:
        """The site's own sums; on the audit log before they leave."""
        asked = question_in(question)
        kind = asked.kind.partition(" ")[0]
        if kind in TASKS and kind not in tasks_of(self.study.spec):
            raise BadMessage(f"Site {self.name} is not asked for {kind} in this study.")
        setup, models = asked.kind in SETUP, models_in(asked)
        answers = self.answers(setup, charter_in(question.get("charter")))
        if not setup:
            self.asked.check(self.name, self.table.rows, models)
        values, sound = answers(asked)
        if not sound:
            raise BadMessage(
                f"Site {self.name} does not answer about this model: fewer of its rows, or of a "
                "fold's, would be behind the answer than its policy allows."
            )
        each = (float(np.abs(a).max(initial=0.0)) for a in asked.numbers.values())
        about = {"largest": max(each, default=0.0), "numbers": len(values), "models": models}
        self.asked.enter(asked.kind, setup=setup, **about)
        return {"sums": values}
