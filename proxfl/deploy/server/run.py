"""One life of a run over real sites: what studies of all kinds have in common."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxfl.deploy.ops.home import EXCHANGES, Home
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.server.checkpoint import Books
from proxfl.deploy.server.deployed import STUDY, by_kind, deployed
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.options import RunOptions
from proxfl.deploy.server.status import Status, after_round, so_far
from proxfl.train import folder as results
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.local import Traffic, total
from proxfl.train.spec import Spec


@dataclass
class StudyRun:
    """What is asked of whom, where its results go, and how it stands; `books` are as it began."""

    study: Study
    options: RunOptions
    federation: RemoteFederation
    status: Status
    books: Books

    def __post_init__(self):
        self.out, self.begun = Path(self.options.out), time.monotonic()
        self.traffic = list(self.books.traffic)  # all of it, after each round

    @property
    def exchanges(self) -> Path:
        """Where the sums of a run are that goes on from them, and comes to a model."""
        return self.out / EXCHANGES

    @property
    def private_exchanges(self) -> Path:
        """The same of a run that comes to none."""
        return Home(Path(self.options.folder)).exchanges(self.study.id)

    @property
    def seconds(self) -> float:
        """For how long it has run, in all of its lives."""
        return self.books.seconds + time.monotonic() - self.begun

    @property
    def crossed(self) -> Traffic:
        """What crossed the network until now."""
        return total(by_kind(self.federation.ledger))

    def begin(self, spec: Spec, fingerprints: dict[str, str]) -> None:
        """Put into the folder of results what they are going to be of."""
        results.begin(self.out, spec, fingerprints, self.options.command)
        self.study.write(self.out / STUDY)

    def watch(self, driver: Driver, records: list[Record]) -> None:
        """After every round in which all sites took part."""
        self.traffic.append(self.crossed)
        self.tell(driver, records, self.study.sites)

    def tell(
        self,
        driver: Driver,
        records: Sequence[Record],
        answered: Collection[str],
        away: Collection[str] = (),
        each: float = 0.0,
    ) -> None:
        """How the run stands after a round; rounds take `each` seconds, where that is known."""
        self.status.tell(
            **after_round(records, each, driver.settings),
            answered=len(answered),
            away=sorted(away),
            **so_far(self.federation.ledger),
        )

    def facts(
        self, rounds: Mapping[str, int], resumed: int, quorum: int = 0, **more: Any
    ) -> dict[str, Any]:
        """What a run over real sites adds to a result; `more` is about the deployment."""
        ledger = self.federation.ledger
        about = {"quorum": quorum, "resumed": resumed, "secure": self.options.secure}
        return {
            "traffic": self.traffic,
            "ledger": by_kind(ledger),
            "seconds": self.seconds,
            "deployment": deployed(ledger, self.study, rounds, **about) | more,
        }
