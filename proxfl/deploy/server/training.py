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

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.permissions import lock, private_folder
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.protocol.plan import Plan
from proxfl.deploy.protocol.transport import Transport
from proxfl.deploy.server import checkpoint
from proxfl.deploy.server.checkpoint import Books, books_at
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.inquiry import Patience
from proxfl.deploy.server.ledger import Ledger
from proxfl.deploy.server.status import Status, after_round
from proxfl.deploy.server.summaries import aligned, read_summary
from proxfl.deploy.site.site import method_of
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.problem import Shard
from proxfl.report import training as report
from proxfl.train import folder as results
from proxfl.train.agreement import Agreement, agree, problem_of
from proxfl.train.drivers.driver import Driver, Record, Solution, solve
from proxfl.train.local import Traffic
from proxfl.train.model import Model
from proxfl.train.spec import Spec, loss_of
from proxfl.train.tasks import TASKS
from proxfl.train.train import Fit, driver_of, gap_of

RUN_LOCK = "run.lock"
SETUP = ("summary", "agree")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What one run is given, as Flower's configuration can hold it; 0 is as in the plan, or all."""

    folder: str = ""
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

    def spec(self, plan: Plan) -> Spec:
        given = {"rounds": self.rounds, "tol": self.tol}
        return plan.spec.replace(**{k: v for k, v in given.items() if v})


def refuse_quorum(spec: Spec, sites: int, quorum: int) -> None:
    """Refuse a quorum that means nothing."""
    if quorum > sites:
        raise InputError(f"quorum must be at most the {sites} sites, got {quorum}.")
    if 0 < quorum < sites and method_of(spec).needs_everyone:
        raise InputError(
            f"algorithm {spec.algorithm!r} needs every site in every round; drop the quorum, or "
            "use 'decoupled-partial'."
        )


def carry_out(plan: Plan, options: RunOptions, transport: Transport, run: str) -> None:
    """A run, from its checkpoint if there is one, to a folder of results."""
    home, out = Home(Path(options.folder)), Path(options.out)
    lock(private_folder(home.server), RUN_LOCK)  # until the process ends: one run at a time
    books = books_at(out / results.CHECKPOINT, plan.sites)
    federation = RemoteFederation(
        transport,
        plan.id,
        plan.sites,
        patience=options.patience,
        ledger=books.ledger,
        standing=books.standing,
        cohort=plan.spec.cohort,
    )
    about = {"run": run, "pid": os.getpid(), "out": str(out), "sites": plan.sites}
    about |= {"options": dataclasses.asdict(options)}
    present = lambda: list(federation.attendance.present)
    with Status(home.status, present, **about) as status:
        fit = Training(plan, options, federation, books, status).run()
        report.save(out, fit, options.command)


@dataclasses.dataclass
class Training:
    """One life of a run."""

    plan: Plan
    options: RunOptions
    federation: RemoteFederation
    books: Books
    status: Status

    def __post_init__(self):
        self.spec, self.out = self.options.spec(self.plan), Path(self.options.out)
        self.checkpoint, self.begun = self.out / results.CHECKPOINT, time.monotonic()

    @property
    def seconds(self) -> float:
        return self.books.seconds + time.monotonic() - self.begun

    def run(self) -> Fit:
        refuse_quorum(self.spec, len(self.plan.sites), self.options.quorum)
        with precision(np.float64):
            summaries = self.summaries()
            agreement = agree(self.spec, summaries)
            fingerprints = {site: summary["fingerprint"] for site, summary in summaries.items()}
            self.refuse_other_data(fingerprints)
            self.federation.ask("agree", {"agreement": json.dumps(agreement.to_dict())})
            problem = problem_of(self.spec, agreement)
            parts = (method_of(self.spec), problem, self.spec.seed, self.plan.sites)
            experiment = Experiment(self.plan.id, *parts, stand_in(self.spec, agreement))
            self.federation.settle(experiment, agreement.weights)
            driver = driver_of(self.spec, self.federation, problem, agreement)
            solution = self.solve(driver, fingerprints)
            gap = gap_of(self.spec, driver, agreement, solution)
        ledger = self.federation.ledger
        return Fit(
            spec=self.spec,
            agreement=agreement,
            model=Model.of(self.spec.loss, agreement, solution.x),
            solution=solution,
            duality_gap=gap,
            fingerprints=fingerprints,
            dropped={site: summary["dropped"] for site, summary in summaries.items()},
            traffic=list(self.books.traffic),
            ledger=by_kind(ledger),
            seconds=self.seconds,
            deployment=self.deployment(),
        )

    def summaries(self) -> dict[str, dict[str, Any]]:
        answers = self.federation.ask("summary", {})
        read = {site: read_summary(site, found.get("summary")) for site, found in answers.items()}
        return aligned(read)

    def refuse_other_data(self, found: dict[str, str]) -> None:
        """A resumed run goes on with the data it began with."""
        if not self.checkpoint.exists():
            return
        began = results.read_json(self.out / results.MANIFEST)["fingerprints"]
        other = [site for site in self.plan.sites if began.get(site) != found[site]]
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
            took_part = self.federation.answered[1]
            up, down = ledger.total("up").payload, ledger.total("down").payload
            self.books = self.books._replace(
                standing=self.federation.standing_after(int(state.counted)),
                participation={
                    s: n + (s in took_part) for s, n in self.books.participation.items()
                },
                records=records,
                traffic=[*self.books.traffic, (up, down)],
            )
            checkpoint.store(self.checkpoint, state, self.books._replace(seconds=self.seconds))
            each = (time.monotonic() - begun) / (len(records) - len(before.records))
            self.status.tell(
                **after_round(records, each, driver.settings),
                answered=len(took_part),
                away=sorted(self.federation.away),
                bytes_up=up,
                bytes_down=down,
                faults=len(ledger.faults),
            )

        return solve(driver, first, before.records, keep)

    def deployment(self) -> dict[str, Any]:
        """What real sites add to the result."""
        ledger = self.federation.ledger
        ways = lambda site: {way: ledger.total(way, site)._asdict() for way in ("up", "down")}
        return {
            "sites": {
                site: {"rounds": self.books.participation[site], **ways(site)}
                for site in self.plan.sites
            },
            "traffic": ways(None),
            "faults": [fault._asdict() for fault in ledger.faults],
            "quorum": self.options.quorum or len(self.plan.sites),
            "resumed": self.books.resumed,
            "secure": self.options.secure,
        }


def stand_in(spec: Spec, agreement: Agreement) -> Shard:
    """What the server knows of a shard: the shape and type of a row. It has a batch of them."""
    outputs, rows = len(agreement.targets), spec.batch or 1
    shape: Any = jax.ShapeDtypeStruct
    features = shape((rows, len(agreement.features)), jnp.float64)
    labels = loss_of(spec).target.encoded(rows, outputs)
    return Shard((features, labels), shape((), jnp.int32), shape((), jnp.float64))


def by_kind(ledger: Ledger) -> dict[str, Traffic]:
    """The books as a run in one process keeps them: payload, all sites together."""
    kinds = {"agreement": SETUP, "round": ("round",)} | {task: (task,) for task in TASKS}
    total = lambda way, names: sum(ledger.total(way, kind=name).payload for name in names)
    return {
        kind: Traffic(
            sum(ledger.exchanges[name] for name in names), total("up", names), total("down", names)
        )
        for kind, names in kinds.items()
    }
