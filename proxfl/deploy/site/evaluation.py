"""A site's part of an evaluation: sums over its rows, and over draws of them, told once.

The sums hold counts of rows in narrow cells of their scores, by class, so the usual policy wants a
person's approval for it.
"""

from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.protocol.study import Study, applied
from proxfl.deploy.protocol.wire import Value
from proxfl.deploy.site.draws import secret_draws
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.seat import Seat
from proxfl.deploy.site.worker import Worker
from proxfl.tables import Table
from proxfl.train.evaluate import tell


class EvaluationSite:
    """A table, and a model that is applied to it."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.seat = Seat(study, name, table, office)

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return applied(study).table(data)

    def worker(self) -> Worker:
        otherwise = "is asked for sums in this study, and nothing else."
        return self.seat.answering({"sums": self.sums}, otherwise)

    def sums(self, question: dict[str, Any]) -> dict[str, Value]:
        seat, study = self.seat, self.seat.study
        seat.questions.check(seat.name, seat.table.rows)
        seat.tell_of_rows()
        draw = secret_draws(seat.office, study.id)
        told = tell(applied(study), seat.table, draw, study.how)
        sums = {
            f"{part}/{name}": a for part in told._fields for name, a in getattr(told, part).items()
        }
        seat.questions.enter("sums", numbers=sum(np.size(a) for a in sums.values()))
        return sums
