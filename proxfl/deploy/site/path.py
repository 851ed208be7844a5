"""A site's part of a path that is not masked: its own sums over rows, told to the server.

enter   its columns' names, its labels unless a schema has them, and what names its table
agree   what all sites' sums come to for all rows, and for those that each fold leaves; once
sums    a question of the path, for the site's sums
"""

from pathlib import Path
from typing import Any, TypedDict

from proxfl.deploy.masking.messages import Charter, charter_in, question_in
from proxfl.deploy.masking.path import PathOfSums, models_in
from proxfl.deploy.masking.path_answering import PathAnswers
from proxfl.deploy.masking.training import SETUP
from proxfl.deploy.protocol.study import Study, read_table
from proxfl.deploy.protocol.trees import largest
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.agreeing import (
    refuse_another,
    refuse_other_data,
    refuse_unsound,
    told_as,
    usable,
)
from proxfl.deploy.site.guard import guards
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.seat import Seat
from proxfl.deploy.site.training import AGREEMENT, tasks_of
from proxfl.deploy.site.worker import Worker
from proxfl.errors import InputError
from proxfl.storage import documents
from proxfl.tables import Table
from proxfl.train.agreement import Agreement
from proxfl.train.spec import declared, loss_of
from proxfl.train.tasks import TASKS


class Agreed(TypedDict):
    """agreement.json: what was agreed on for every set of rows, and for which data."""

    fingerprint: str
    charter: str
    agreements: list[Agreement]


def path_at(seat: Seat, folder: Path, charter: Charter) -> tuple[PathOfSums, PathAnswers]:
    """The program of a study, and what a site answers to it, by its rules on rows."""
    study, run = seat.study, PathOfSums(seat.study, charter)
    number = study.sites.index(seat.name)
    return run, PathAnswers(run, number, seat.table, folder, *guards(seat.shares))


class PathSite:
    """A table, and the path that it is asked for once the sites have agreed."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.seat = Seat(study, name, table, office)
        self.path = self.seat.folder / AGREEMENT
        self.made: PathAnswers | None = None

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return read_table(study.spec, data)

    def worker(self) -> Worker:
        setup = {"enter": self.enter, "agree": self.agree, "sums": self.sums}
        otherwise = "is asked for the sums of a path, and nothing else."
        return self.seat.answering(setup, otherwise)

    def enter(self, question: dict[str, Value]) -> dict[str, Value]:
        seat, spec = self.seat, self.seat.study.spec
        seat.tell_of_rows()
        labels = () if declared(spec) else tuple(loss_of(spec).target.labels(seat.table.y))
        seat.questions.enter("enter", setup=True)
        charter = Charter(tuple(seat.table.features), labels)
        return {"charter": charter.text, "fingerprint": seat.fingerprint}

    def agree(self, question: dict[str, Value]) -> dict[str, Value]:
        """Take what the server made of all sums, and keep it."""
        told = told_as(question, "agreements", list[Agreement])
        held = Agreed(
            fingerprint=self.seat.fingerprint,
            charter=charter_in(question.get("charter")).text,
            agreements=told,
        )
        refuse_another(self.seat, self.agreed(), held)
        self.seat.tell_of_rows()
        self.made = self.prepared(held["charter"], told)
        documents.write_json(self.path, dict(held), private=True)
        self.seat.questions.enter("agree", setup=True)
        return {}

    def agreed(self) -> Agreed | None:
        if not self.path.exists():
            return None
        found: Any = documents.read_json(self.path, Agreed)
        return Agreed(**{key: found[key] for key in Agreed.__annotations__})

    def prepared(self, charter: str, told: list[Any]) -> PathAnswers:
        """What answers, by the agreements for all rows and for those that each fold leaves."""
        with usable(self.seat, "agreements do"):
            agreements = [Agreement.from_dict(one) for one in told]
            self.check(agreements)
            made = self.answering(charter_in(charter))
        made.run.agreements = agreements
        return made

    def answering(self, charter: Charter) -> PathAnswers:
        return path_at(self.seat, self.seat.folder, charter)[1]

    def check(self, agreements: list[Agreement]) -> None:
        if len(agreements) != len(self.seat.study.folds) + 1:
            raise InputError("There is not one agreement for each set of rows.")
        for agreement in agreements:
            refuse_unsound(self.seat, agreement)

    def answers(self, setup: bool, charter: Charter) -> PathAnswers:
        """What answers; before an agreement, questions of its making only."""
        if self.made is None and (held := self.agreed()) is not None:
            refuse_other_data(self.seat, held)
            self.made = self.prepared(held["charter"], held["agreements"])
        if self.made is not None:
            return self.made
        if not setup:
            raise BadMessage(f"Site {self.seat.name} has not agreed to anything yet.")
        self.seat.tell_of_rows()
        return self.answering(charter)

    def sums(self, question: dict[str, Value]) -> dict[str, Value]:
        """The site's own sums; on the audit log before they leave."""
        asked = question_in(question)
        kind = asked.kind.partition(" ")[0]
        if kind in TASKS and kind not in tasks_of(self.seat.study.spec):
            raise BadMessage(f"Site {self.seat.name} is not asked for {kind} in this study.")
        setup, models = asked.kind in SETUP, models_in(asked)
        answers = self.answers(setup, charter_in(question.get("charter")))
        if not setup:
            self.seat.questions.check(self.seat.name, self.seat.table.rows, models)
        values, sound = answers(asked)
        if not sound:
            raise BadMessage(
                f"Site {self.seat.name} does not answer about this model: fewer of its rows, or of "
                "a fold's, would be behind the answer than its policy allows."
            )
        about = {"largest": largest(asked.numbers.values()), "numbers": len(values)}
        about |= {"models": models}
        self.seat.questions.enter(asked.kind, setup=setup, **about)
        return {"sums": values}
