"""A site's part of a description, not under masks: each question is answered once in a study.

Two histograms of cells that differ in little would tell the numbers between, so a site keeps what
it was asked about, and answers that again, and nothing else.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.seat import Seat
from proxfl.deploy.site.worker import Worker
from proxfl.storage.files import write_bytes
from proxfl.tables import Table
from proxfl.tables.survey import QUESTIONS, Site, described_table

HIDDEN = -1.0  # in place of a count


class DescriptionSite:
    """A table, and what its site tells of the columns."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.seat = Seat(study, name, table, office)
        self.site = Site(study.schema, table, max(study.smallest, office.policy.count), HIDDEN)

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return described_table(data, study.schema)

    def worker(self) -> Worker:
        setup = {kind: self.answering(kind) for kind in QUESTIONS}
        return self.seat.answering(setup, "is asked about its columns in this study, only.")

    def answering(self, kind: str) -> Callable[[dict[str, Any]], dict[str, Value]]:
        seat = self.seat

        def answer(question: dict[str, Any]) -> dict[str, Value]:
            self.once(kind, question)
            seat.questions.check(seat.name, seat.table.rows)
            seat.tell_of_rows()
            told = self.site(kind, question)
            seat.questions.enter(kind, numbers=told.size)
            return {"told": told}

        return answer

    def once(self, kind: str, question: dict[str, Any]) -> None:
        asked = repr(sorted((name, np.asarray(a).tolist()) for name, a in question.items()))
        path = private_folder(self.seat.folder) / f"asked-{kind}"
        if not path.exists():
            write_bytes(path, asked.encode(), private=True)
        elif path.read_bytes() != asked.encode():
            raise BadMessage(
                f"Site {self.seat.name} was asked for {kind} in this study before, about other "
                "numbers; write another study."
            )
