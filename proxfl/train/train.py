"""Train on files, one per site: agree, solve, certify; once interrupted, on to the same bits."""

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.precision import precision
from proxfl.problem import Problem, shards_of
from proxfl.tables import Table, read_sites
from proxfl.train.agreement import Agreement, agree, prepare, problem_of, summarise
from proxfl.train.drivers import fixed
from proxfl.train.drivers.adaptive import Solver
from proxfl.train.drivers.driver import Driver, Record, Settings, Solution, solve
from proxfl.train.duality import duality_gap
from proxfl.train.federation import Federation
from proxfl.train.local import LocalFederation, Traffic, total
from proxfl.train.model import Model
from proxfl.train.regulariser import on_coefficients
from proxfl.train.resume import Progress, restore, store
from proxfl.train.spec import Spec

CHECKPOINT_SECONDS = 5.0


class ConvergenceWarning(UserWarning):
    """The rounds were used up before the certificate was met."""


@dataclass(frozen=True)
class Job:
    """Sites that have agreed: all that is wrong with files and columns has shown by now."""

    spec: Spec  # with the content of its files in place of their paths
    tables: Sequence[Table]
    agreement: Agreement
    agreement_bytes: tuple[int, int]  # up and down, all sites

    @property
    def fingerprints(self) -> dict[str, str]:
        return {table.name: table.fingerprint for table in self.tables}


@dataclass(frozen=True)
class Fit:
    """A trained model with its certificate, its history and what made it."""

    spec: Spec
    agreement: Agreement
    model: Model
    solution: Solution
    duality_gap: float | None
    fingerprints: dict[str, str]
    dropped: dict[str, int]
    traffic: list[tuple[int, int]]  # bytes up and down after each round, all sites
    ledger: dict[str, Traffic]
    seconds: float
    deployment: dict[str, Any] | None = None  # what real sites did; none in one process

    @property
    def records(self) -> list[Record]:
        return self.solution.records


def train(
    spec: Spec,
    tables: Sequence[Table] | None = None,
    checkpoint: Path | None = None,
    watch: Callable[[Record], None] = lambda record: None,
) -> Fit:
    """Fit the spec's model to its sites, in this process.

    With a `checkpoint` path the run saves itself there now and then, and when interrupted; if the
    file exists, the run goes on from it.
    """
    return run(begin(spec, tables), checkpoint, watch)


def begin(spec: Spec, tables: Sequence[Table] | None = None) -> Job:
    """Read the sites' files and let the sites agree."""
    spec = spec.read_files()
    tables = read_sites(spec.sites, spec.target, spec.missing) if tables is None else tables
    told = {table.name: summarise(table, spec) for table in tables}
    agreement = agree(spec, told)
    up = sum(len(json.dumps(summary)) for summary in told.values())
    down = len(tables) * len(json.dumps(agreement.to_dict()))
    return Job(spec, tables, agreement, (up, down))


def run(
    job: Job,
    checkpoint: Path | None = None,
    watch: Callable[[Record], None] = lambda record: None,
) -> Fit:
    spec, agreement, begun = job.spec, job.agreement, time.monotonic()
    with precision(np.float64):
        problem = problem_of(spec, agreement)
        examples = [prepare(table, spec, agreement) for table in job.tables]
        shards = shards_of(examples, list(agreement.weights))
        federation = LocalFederation(problem, shards, agreement.sites, spec.seed, spec.cohort)
        federation.enter("agreement", *job.agreement_bytes)
        driver = driver_of(spec, federation, problem, agreement)
        solution, traffic, earlier = drive(driver, federation, checkpoint, watch)
        gap = gap_of(spec, driver, agreement, solution)
    if not solution.converged:
        warnings.warn(ConvergenceWarning(not_converged(spec, solution)), stacklevel=3)
    return Fit(
        spec=spec,
        agreement=agreement,
        model=Model.of(spec.loss, agreement, solution.x),
        solution=solution,
        duality_gap=gap,
        fingerprints=job.fingerprints,
        dropped={table.name: table.dropped for table in job.tables},
        traffic=traffic,
        ledger=dict(federation.ledger),
        seconds=earlier + time.monotonic() - begun,
    )


def driver_of(spec: Spec, federation: Federation, problem: Problem, agreement: Agreement) -> Driver:
    settings, weights = settings_of(spec), np.array(agreement.weights)
    if not fixed.applies(spec):
        return Solver(federation, problem, weights, settings)
    fixed.refuse_nonsense(spec, problem, agreement.rows)
    return fixed.FixedSteps(federation, problem, weights, settings, spec.algorithm)


def gap_of(spec: Spec, driver: Driver, agreement: Agreement, solution: Solution) -> float | None:
    g = on_coefficients(spec, agreement.features, len(agreement.targets))
    return duality_gap(driver, g, solution.x, solution.objective, np.array(agreement.unit))


def settings_of(spec: Spec) -> Settings:
    return Settings(**{field.name: getattr(spec, field.name) for field in fields(Settings)})


def not_converged(spec: Spec, solution: Solution) -> str:
    remedies = ["allow more rounds", "a larger tolerance"]
    remedies += [] if spec.standardise else ["standardise the features"]
    return (
        f"Not converged after {len(solution.records)} rounds: optimality "
        f"{solution.optimality:.2e} is above the tolerance {spec.tol:.2e}; "
        f"{', or '.join(remedies)}."
    )


def drive(
    driver: Driver,
    federation: LocalFederation,
    checkpoint: Path | None,
    watch: Callable[[Record], None],
) -> tuple[Solution, list[tuple[int, int]], float]:
    """Solve, from a checkpoint if there is one, keeping one on the way.

    Also the traffic after each round, and the seconds that went before the checkpoint.
    """
    before = Progress()
    if checkpoint is not None and checkpoint.exists():
        before = restore(checkpoint, driver, federation)
    traffic, latest, begun = list(before.traffic), None, time.monotonic()
    saved = begun

    def keep(state, records) -> None:
        nonlocal latest, saved
        traffic.append(total(federation.ledger))
        watch(records[-1])
        now = time.monotonic()
        latest = Progress(
            state=state,
            clients=federation.generations[int(state.counted)],
            records=records,
            traffic=traffic,
            ledger=dict(federation.ledger),
            seconds=before.seconds + now - begun,
        )
        if now - saved > CHECKPOINT_SECONDS:
            save()
            saved = now

    def save() -> None:
        if checkpoint is not None and latest is not None:
            store(checkpoint, latest)

    try:
        solution = solve(driver, before.state, before.records, keep)
    except KeyboardInterrupt:
        save()
        raise
    if not solution.converged:
        save()  # more rounds may follow
    return solution, traffic, before.seconds
