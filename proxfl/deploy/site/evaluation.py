"""A site's part of an evaluation: sums over its rows, and over draws of them, told once.

The sums hold counts of rows in narrow cells of their scores, by class, so the usual policy wants a
person's approval for it.
"""

from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.protocol.study import Study, applied
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.asked import Asked
from proxfl.deploy.site.draws import secret_draws
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.worker import Worker
from proxfl.tables import Table
from proxfl.train.evaluate import tell


class EvaluationSite:
    """A table, and a model that is applied to it."""

    def __init__(self, study: Study, name: str, table: Table, office: Office):
        self.study, self.name, self.table, self.office = study, name, table, office
        self.asked = Asked(office, study.id)

    @staticmethod
    def read(study: Study, data: Path) -> Table:
        return applied(study).table(data)

    def worker(self) -> Worker:
        where = (self.study.id, self.study.sites, self.name, self.office.place(self.study.id))
        return Worker(*where, self.nothing, {}, {"sums": self.sums})

    def nothing(self) -> Experiment:
        raise BadMessage(f"Site {self.name} is asked for sums in this study, and nothing else.")

    def sums(self, question: dict[str, Any]) -> dict[str, Value]:
        self.asked.check(self.name, self.table.rows)
        self.office.tell_of(self.name, self.study, self.table)
        draw = secret_draws(self.office, self.study.id)
        told = tell(applied(self.study), self.table, draw, self.study.how)
        sums = {
            f"{part}/{name}": a for part in told._fields for name, a in getattr(told, part).items()
        }
        self.asked.enter("sums", numbers=sum(np.size(a) for a in sums.values()))
        return sums
