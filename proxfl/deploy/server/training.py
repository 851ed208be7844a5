"""The server's program: `proxfl train` over real sites.

The same drivers as in one process (`proxfl.train`) run over a `RemoteFederation`. After every
round, and before the next, all that the run needs to go on is on the disk: kill it at any moment,
resume it, and it ends with the model it would have had.
"""

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.masking.kept import Kept
from proxfl.deploy.masking.path import refuse_path
from proxfl.deploy.masking.training import refuse_unmaskable
from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.permissions import lock, private_folder
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import LOOSE, Study
from proxfl.deploy.protocol.transport import Transport
from proxfl.deploy.server import checkpoint, description, evaluation
from proxfl.deploy.server.checkpoint import Books, books_at
from proxfl.deploy.server.deployed import STUDY, by_kind, deployed
from proxfl.deploy.server.epoch import next_epoch
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.inquiry import Patience
from proxfl.deploy.server.masked import MaskedRun
from proxfl.deploy.server.path import PathRun
from proxfl.deploy.server.proposal import propose
from proxfl.deploy.server.status import Status, after_round, so_far
from proxfl.deploy.server.summaries import aligned, read_summary
from proxfl.deploy.site.site import method_of
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.report import path as path_report
from proxfl.report import training as report
from proxfl.train import folder as results
from proxfl.train.agreement import agree, problem_of, shard_form
from proxfl.train.drivers.driver import Driver, Record, Solution, solve
from proxfl.train.local import total
from proxfl.train.spec import Spec
from proxfl.train.train import Fit, solved

RUN_LOCK = "run.lock"


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What one run is given, as Flower's configuration holds it; 0 is as in the study, or all."""

    folder: str = ""
    study: str = ""
    out: str = ""
    command: str = ""
    rounds: int = 0
    tol: float = 0.0
    quorum: int = 0
    wait: float = Patience().wait
    deadline: float = Patience().deadline
    secure: bool = True  # whether sites are known by their keys

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "RunOptions":
        fields = dataclasses.fields(cls)
        return cls(**{field.name: config.get(field.name, field.default) for field in fields})

    @property
    def patience(self) -> Patience:
        return Patience(self.quorum or None, self.wait, self.deadline)

    def spec(self, study: Study) -> Spec:
        given = {"rounds": self.rounds, "tol": self.tol}
        return study.spec.replace(**{k: v for k, v in given.items() if v})


def refuse_quorum(spec: Spec, sites: int, quorum: int) -> None:
    """Refuse a quorum that means nothing."""
    if quorum > sites:
        raise InputError(f"quorum must be at most the {sites} sites, got {quorum}.")
    if 0 < quorum < sites and method_of(spec).needs_everyone:
        raise InputError(
            f"algorithm {spec.algorithm!r} needs every site in every round; drop the quorum, or "
            "use 'decoupled-partial'."
        )


def refuse_masked(study: Study, options: RunOptions) -> None:
    """Refuse what sites that follow the run, or count its noise, would not follow."""
    if study.choice is not None:
        refuse_path(study.spec, study.choice, len(study.sites), study.masked)
    changed = [name for name in LOOSE if getattr(options, name)]
    if study.noise is not None and changed:
        raise InputError(
            f"the privacy noise of study {study.name} is for its own {study.spec.rounds} rounds, "
            f"and its sites count it so; write another study in place of another {changed[0]}."
        )
    if study.choice is not None and changed:
        raise InputError(
            f"a path is asked with its study's own {changed[0]}; write another study with the one "
            "you want."
        )
    if not study.masked:
        return
    if study.ask == "train":
        refuse_unmaskable(study.spec)
    if 0 < options.quorum < len(study.sites):
        raise InputError(
            "a masked run needs every site in every exchange, since only the sum of all shows "
            "anything; drop the quorum, or ask a study that is unmasked."
        )
    if changed:
        raise InputError(
            f"sites that follow a masked run hold it to the study's own {changed[0]}; write "
            "another study with the one you want."
        )


def carry_out(
    membership: Membership, study: Study, options: RunOptions, transport: Transport, run: str
) -> None:
    """A run, from its checkpoint if there is one, to a folder of results."""
    home, out = Home(Path(options.folder)), Path(options.out)
    lock(private_folder(home.server), RUN_LOCK)  # until the process ends: one run at a time
    books = books_at(out / results.CHECKPOINT, study.sites)
    epoch = next_epoch(home.epoch, books.standing.values())
    reach = lambda name, **more: RemoteFederation(
        transport, name, study.sites, patience=options.patience, epoch=epoch, **more
    )
    channel = reach(membership.channel, ledger=books.ledger)
    kept = {"standing": books.standing, "cohort": study.spec.cohort}
    federation = reach(study.id, ledger=books.ledger, **kept)
    about = {"run": run, "pid": os.getpid(), "out": str(out), "sites": study.sites}
    about |= {"options": dataclasses.asdict(options)}
    present = lambda: list(federation.attendance.present or channel.attendance.present)
    with Status(home.status, present, **about) as status:
        refuse_masked(study, options)
        propose(channel, study)
        masked = MaskedRun(study, out, options.command, options.secure, federation, status)
        if study.ask == "evaluate" and study.masked:
            found = evaluation.evaluate_masked(masked, Kept(home.exchanges(study.id)))
            evaluation.save(out, study, found, options.command)
        elif study.ask == "evaluate":
            evaluation.save(out, study, evaluation.evaluate(study, federation), options.command)
        elif study.ask == "describe" and study.masked:
            told = description.describe_masked(masked, Kept(home.exchanges(study.id)))
            description.save(out, study, told, options.command)
        elif study.ask == "describe":
            told = description.describe(study, federation)
            description.save(out, study, told, options.command)
        elif study.ask == "path":
            about = (study, out, options.command, options.secure, federation, status)
            path_report.fill(out, PathRun(*about).run(), options.command)
        elif study.masked:
            report.save(out, masked.run(), options.command)
        else:
            fit = Training(study, options, federation, books, status).run()
            report.save(out, fit, options.command)
    study.write(out / STUDY)


@dataclasses.dataclass
class Training:
    """One life of a run."""

    study: Study
    options: RunOptions
    federation: RemoteFederation
    books: Books
    status: Status

    def __post_init__(self):
        self.spec, self.out = self.options.spec(self.study), Path(self.options.out)
        self.checkpoint, self.begun = self.out / results.CHECKPOINT, time.monotonic()

    @property
    def seconds(self) -> float:
        return self.books.seconds + time.monotonic() - self.begun

    def run(self) -> Fit:
        refuse_quorum(self.spec, len(self.study.sites), self.options.quorum)
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
        ledger, options = self.federation.ledger, self.options
        more = {"quorum": options.quorum, "resumed": self.books.resumed, "secure": options.secure}
        return Fit(
            **found._asdict(),
            spec=self.spec,
            agreement=agreement,
            fingerprints=fingerprints,
            dropped={site: summary["dropped"] for site, summary in summaries.items()},
            traffic=list(self.books.traffic),
            ledger=by_kind(ledger),
            seconds=self.seconds,
            deployment=deployed(ledger, self.study, self.books.participation, **more),
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
        began = results.read_manifest(self.out)["fingerprints"]
        other = [site for site in self.study.sites if began.get(site) != found[site]]
        if other:
            raise InputError(
                f"Site {other[0]} does not hold the data that the run in {self.out} began with; "
                "restore them, or start a new run."
            )

    def solve(self, driver: Driver, fingerprints: dict[str, str]) -> Solution:
        resumed, before, ledger = self.checkpoint.exists(), self.books, self.federation.ledger
        first = checkpoint.restore_state(self.checkpoint, driver) if resumed else None
        begun = time.monotonic()

        def keep(state: Any, records: list[Record]) -> None:
            if len(records) == 1:
                results.begin(self.out, self.spec, fingerprints, self.options.command)
                self.study.write(self.out / STUDY)
            visited = driver.algorithm(state) is not None
            took_part = self.federation.answered[1] if visited else self.study.sites
            made = total(by_kind(ledger))
            self.books = self.books._replace(
                standing=self.federation.standing_after(int(state.counted)),
                participation={
                    s: n + (s in took_part) for s, n in self.books.participation.items()
                },
                records=records,
                traffic=[*self.books.traffic, made],
            )
            checkpoint.store(self.checkpoint, state, self.books._replace(seconds=self.seconds))
            each = (time.monotonic() - begun) / (len(records) - len(before.records))
            self.status.tell(
                **after_round(records, each, driver.settings),
                answered=len(took_part),
                away=sorted(self.federation.away),
                **so_far(ledger),
            )

        return solve(driver, first, before.records, keep)
