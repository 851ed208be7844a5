"""`proxfl train` over real sites.

The same drivers as in one process (`proxfl.train`) run over a `RemoteFederation`. After every
round, and before the next, all that the run needs to go on is on the disk: kill it at any moment,
resume it, and it ends with the model it would have had. Under masks they run over sums, and the
sums are what is on the disk.
"""

import dataclasses
import json
import time
from typing import Any

import numpy as np

from proxfl.deploy.masking.training import ALL, MaskedTraining
from proxfl.deploy.protocol.experiment import Experiment, method_of
from proxfl.deploy.server import checkpoint
from proxfl.deploy.server.checkpoint import Books
from proxfl.deploy.server.masked import MaskedRun
from proxfl.deploy.server.options import refuse_quorum
from proxfl.deploy.server.run import StudyRun
from proxfl.deploy.server.summaries import aligned, read_summary
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.report import training as report
from proxfl.train import folder as results
from proxfl.train.agreement import agree, problem_of, shard_form
from proxfl.train.drivers.driver import Driver, Record, Solution, solve
from proxfl.train.train import Fit, solved


def in_the_clear(run: StudyRun) -> Fit:
    return Training(run, run.books).fit()


def masked(run: StudyRun) -> Fit:
    resumed, members = run.exchanges.exists(), MaskedRun(run)
    about = (run.study.spec, len(run.study.sites))

    def watch(driver: Driver, records: list[Record]) -> None:
        if len(records) == 1:
            run.begin(run.study.spec, members.fingerprints)
        run.watch(driver, records)

    made = lambda charter: MaskedTraining(*about, *charter, watch=watch)
    program, masking = members.in_results(made)
    return fit_of(run, program, members.fingerprints, resumed, masking=masking)


def fit_of(
    run: StudyRun,
    program: MaskedTraining,
    fingerprints: dict[str, str],
    resumed: bool,
    **more: Any,
) -> Fit:
    """The model that a program over sums has come to, and what its exchanges cost."""
    if program.agreement is None or program.found is None:
        raise RuntimeError("A run that has ended has found something.")
    rounds = dict.fromkeys(run.study.sites, len(program.found.solution.records))
    return Fit(
        **program.found._asdict(),
        spec=program.final,
        agreement=program.agreement,
        fingerprints=fingerprints,
        dropped={ALL: program.dropped},
        **run.facts(rounds, int(resumed), **more),
    )


def save(run: StudyRun, fit: Fit) -> None:
    report.save(run.out, fit, run.options.command)


@dataclasses.dataclass
class Training:
    """One life of a run in the clear; `books` are kept up to date."""

    run: StudyRun
    books: Books

    def __post_init__(self):
        self.study, self.federation = self.run.study, self.run.federation
        self.spec = self.run.options.spec(self.study)
        self.checkpoint = self.run.out / results.CHECKPOINT

    def fit(self) -> Fit:
        quorum = self.run.options.quorum
        refuse_quorum(self.spec, len(self.study.sites), quorum)
        with precision(np.float64):
            summaries = self.summaries()
            agreement = agree(self.spec, summaries)
            fingerprints = {site: summary["fingerprint"] for site, summary in summaries.items()}
            self.refuse_other_data(fingerprints)
            self.federation.ask("agree", {"agreement": json.dumps(agreement.to_dict())})
            problem = problem_of(self.spec, agreement)
            parts = (method_of(self.spec), problem, self.spec.seed, self.study.sites)
            experiment = Experiment(self.study.id, *parts, shard_form(self.spec, agreement))
            self.federation.settle(experiment, agreement.weights)
            drive = lambda driver: self.solve(driver, fingerprints)
            found = solved(self.spec, self.federation, problem, agreement, drive)
        return Fit(
            **found._asdict(),
            spec=self.spec,
            agreement=agreement,
            fingerprints=fingerprints,
            dropped={site: summary["dropped"] for site, summary in summaries.items()},
            **self.run.facts(self.books.participation, self.books.resumed, quorum),
        )

    def summaries(self) -> dict[str, dict[str, Any]]:
        answers = self.federation.ask("summary", {})
        told = {site: found.get("summary") for site, found in answers.items()}
        read = {site: read_summary(site, text, self.spec) for site, text in told.items()}
        return aligned(read, self.spec)

    def refuse_other_data(self, found: dict[str, str]) -> None:
        """A resumed run goes on with the data it began with."""
        if not self.checkpoint.exists():
            return
        began = results.read_manifest(self.run.out)["fingerprints"]
        other = [site for site in self.study.sites if began.get(site) != found[site]]
        if other:
            raise InputError(
                f"Site {other[0]} does not hold the data that the run in {self.run.out} began "
                "with; restore them, or start a new run."
            )

    def solve(self, driver: Driver, fingerprints: dict[str, str]) -> Solution:
        resumed, before = self.checkpoint.exists(), self.books.records
        first = checkpoint.restore_state(self.checkpoint, driver) if resumed else None
        begun = time.monotonic()

        def keep(state: Any, records: list[Record]) -> None:
            if len(records) == 1:
                self.run.begin(self.spec, fingerprints)
            visited = driver.algorithm(state) is not None
            answered = self.federation.answered[1] if visited else self.study.sites
            self.run.traffic.append(self.run.crossed)
            self.books = self.books._replace(
                standing=self.federation.standing_after(int(state.counted)),
                participation={
                    site: rounds + (site in answered)
                    for site, rounds in self.books.participation.items()
                },
                records=records,
                traffic=self.run.traffic,
                seconds=self.run.seconds,
            )
            checkpoint.store(self.checkpoint, state, self.books)
            each = (time.monotonic() - begun) / (len(records) - len(before))
            self.run.tell(driver, records, answered, self.federation.away, each)

        return solve(driver, first, before, keep)
