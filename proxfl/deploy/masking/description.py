"""Table one from sums alone: the questions are those of `proxfl.tables.survey`."""

from collections.abc import Mapping

import numpy as np

from proxfl.deploy.masking.replica import Ask, Question
from proxfl.deploy.protocol.study import Study
from proxfl.tables import Table
from proxfl.tables.describe import Described, over_sites
from proxfl.tables.hiding import OVERALL
from proxfl.tables.survey import Numbers, Site, survey


class MaskedDescription:
    """The program of a description; `found` is known once it has come to it."""

    def __init__(self, study: Study):
        self.study = study
        self.found: dict[str, Described] | None = None

    def __call__(self, ask: Ask) -> Question:
        def total(kind: str, about: Numbers, size: int) -> Mapping[str, np.ndarray]:
            return {OVERALL: ask(Question(kind, dict(about), size))}

        told = survey(self.study.schema, total)
        self.found = {name: over_sites(column) for name, column in told.items()}
        rows = next(iter(told.values())).rows[OVERALL]
        # What is signed with it, the tip, is bound to all sums.
        return Question("description", {"rows": np.array(rows)}, 0)


class DescribedSite:
    """What one site says to the questions of a description that it follows."""

    def __init__(self, study: Study, table: Table, count: int):
        self.site = Site(study.schema, table, max(study.smallest, count), hidden=0.0)

    def __call__(self, question: Question) -> tuple[np.ndarray, bool]:
        return self.site(question.kind, question.numbers), True
