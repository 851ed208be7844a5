"""A site in one study: what its parts of all kinds of studies share."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.account import Account, account_of
from proxfl.deploy.site.guard import Shares
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.proposal import Proposal
from proxfl.deploy.site.questions import Questions
from proxfl.deploy.site.worker import Setup, Worker
from proxfl.tables import Table


@dataclass(frozen=True)
class Seat:
    """Its name and table, and what it keeps for all of its studies."""

    study: Study
    name: str
    table: Table
    office: Office

    @property
    def folder(self) -> Path:
        return self.office.place(self.study.id)

    @cached_property
    def questions(self) -> Questions:
        return Questions(self.office, self.study.id)

    @cached_property
    def account(self) -> Account | None:
        return account_of(self.office, self.study)

    @property
    def fingerprint(self) -> str:
        """What names the table to others."""
        return self.office.fingerprint(self.table.fingerprint)

    @property
    def shares(self) -> Shares:
        """The shares of the rows that count which must be behind every answer.

        Under noise, to fail where an answer hangs on few rows would tell of them.
        """
        about = Proposal(self.study, self.table, site=self.name)
        return self.office.policy.shares_for(about) if self.account is None else Shares()

    def tell_of_rows(self) -> None:
        """Note that something is told of them, or refuse it; before anything is."""
        self.office.tell_of(self.name, self.study, self.table)

    def answering(self, setup: Setup, otherwise: str) -> Worker:
        """What answers these questions, and all others by a sentence that begins with its name."""

        def refuse() -> Experiment:
            raise BadMessage(f"Site {self.name} {otherwise}")

        return Worker(self.study.id, self.study.sites, self.name, self.folder, refuse, {}, setup)
