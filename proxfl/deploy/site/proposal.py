"""A study as a site sees it, before it takes part, and what there may be against it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from proxfl.deploy.protocol.study import Study, applied
from proxfl.deploy.site.company import Company
from proxfl.tables import Table
from proxfl.tables.naming import seem_names
from proxfl.train.agreement import row_counts
from proxfl.train.folds import deal_at
from proxfl.train.privacy import Noise
from proxfl.train.spec import Spec, beside_of, columns_of, schema_of


class Proposal(NamedTuple):
    """A study as a site sees it: with its own table, and what was asked before.

    `asked` counts the questions of all studies that no person approved, `seen` the studies; `spent`
    is the cost of the noised answers of all others. `company` says whose sums it has, and `before`
    whose those of others had that were begun.
    """

    study: Study
    table: Table
    asked: int = 0
    seen: int = 0
    site: str = ""
    spent: float = 0.0
    company: Company | None = None
    before: Sequence[Company] = ()

    @property
    def spec(self) -> Spec:
        return self.study.spec

    @property
    def parts(self) -> list[Table]:
        """The sets of rows that numbers are about: of a path also each fold, and what it leaves."""
        choice, table = self.study.choice, self.table
        if choice is None or choice.by == "sites":
            return [table]
        dealt = deal_at(self.spec, choice, table, self.study.sites.index(self.site))
        folds = range(choice.folds)
        return [table, *(table.only(d) for k in folds for d in (dealt == k, dealt != k))]

    @property
    def weights(self) -> list[np.ndarray]:
        """How much each row of these sets counts."""
        return [row_counts(part, self.spec) for part in self.parts]

    @property
    def noise(self) -> Noise | None:
        """What is added to the answers."""
        return self.study.noise

    @property
    def seems_to_name_rows(self) -> str:
        """What a person here should know of columns that may be numbers of patients."""
        return seem_names([self.table]) if self.spec.schema is None else ""

    @property
    def columns(self) -> list[str]:
        """Those of the site's file that the study reads."""
        if self.study.ask == "describe":
            return list(self.study.schema.columns)
        spec, table = self.spec, self.table
        evaluates = self.study.ask == "evaluate"
        schema = applied(self.study).schema if evaluates else schema_of(spec)
        sources = table.features if schema is None else schema.sources(table.features).values()
        return list(dict.fromkeys([*columns_of(spec), *sources, *beside_of(spec)]))


class Objection(NamedTuple):
    """Why a site does not take part: for the server, for its own log, and if a person may."""

    sentence: str
    detail: str = ""
    waits: bool = False
