"""Train on files, one per site: agree, solve, certify; once interrupted, on to the same bits."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proxfl.console.log import logger
from proxfl.console.words import called
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.tables import Table, read_frames, read_sites
from proxfl.tables.formats import is_sparse
from proxfl.tables.naming import seem_names
from proxfl.train.agreement import (
    Agreement,
    agree,
    agreement_bytes,
    problem_of,
    shards_for,
    summarise,
)
from proxfl.train.drivers import fixed
from proxfl.train.drivers.adaptive import Solver
from proxfl.train.drivers.driver import Driver, Record, Settings, Solution, shortfall, solve
from proxfl.train.drivers.newton import Newton
from proxfl.train.drivers.noisy import NoisyRounds
from proxfl.train.drivers.working_set import NewtonOnSets
from proxfl.train.duality import duality_gap
from proxfl.train.federation import Federation
from proxfl.train.inference import Inference, infer, refuse_collinear, refuse_inference
from proxfl.train.local import LocalFederation, Traffic, total
from proxfl.train.method import Method, method_for, on_sets, refuse_newton
from proxfl.train.model import Model
from proxfl.train.noisy import NoisyFederation
from proxfl.train.privacy import noise_of
from proxfl.train.regulariser import on_coefficients
from proxfl.train.resume import Progress, restore, store
from proxfl.train.spec import Spec, columns_of, loss_of, outcome_of, wanted_of

log = logger("proxfl.train")

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
    method: Method
    model: Model
    solution: Solution
    fingerprints: dict[str, str]
    dropped: dict[str, int]
    traffic: list[Traffic]  # after each round
    ledger: dict[str, Traffic]
    seconds: float
    tallies: dict[str, dict[str, Any]] = field(default_factory=dict)  # as `tally`, where known
    survival: dict[str, dict[str, Any]] | None = None  # what sites tell of it, if the loss asks
    inference: Inference | None = None  # if it was asked for
    deployment: dict[str, Any] | None = None  # what real sites did; none in one process

    @property
    def records(self) -> list[Record]:
        return self.solution.records

    @property
    def duality_gap(self) -> float | None:
        return self.solution.duality_gap


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


def read_tables(spec: Spec, frames: Mapping[str, Any] | None = None) -> list[Table]:
    """The sites' files, or data frames in their place, as the spec wants them read."""
    spec = spec.read_files()
    how = (columns_of(spec), spec.missing, wanted_of(spec))
    tables = read_sites(spec.sites, *how) if frames is None else read_frames(frames, *how)
    for table in tables:
        refuse_empty(table, spec)
    if spec.schema is None and (odd := seem_names(tables)):
        told = "Look at the columns: %s; what only names rows or persons, --exclude leaves out."
        log.warning(told, odd)
    return tables


def refuse_empty(table: Table, spec: Spec) -> None:
    if (sentence := loss_of(spec).target.tells_nothing(table)) is not None:
        raise InputError(sentence)


def begin(spec: Spec, tables: Sequence[Table] | None = None) -> Job:
    """Read the sites' files and let the sites agree."""
    spec = spec.read_files()
    tables = read_tables(spec) if tables is None else tables
    told = {table.name: summarise(table, spec) for table in tables}
    agreement = agree(spec, told)
    return Job(spec, tables, agreement, agreement_bytes(told, agreement))


def run(
    job: Job,
    checkpoint: Path | None = None,
    watch: Callable[[Record], None] = lambda record: None,
) -> Fit:
    spec, agreement, begun = job.spec, job.agreement, time.monotonic()
    with precision(np.float64):
        problem = problem_of(spec, agreement)
        shards = shards_for(spec, job.tables, agreement, np.array(agreement.weights))
        federation = federation_of(spec, problem, shards, agreement.sites)
        federation.enter("agreement", *job.agreement_bytes)
        before = Progress()

        def driven(driver: Driver) -> Solution:
            nonlocal before
            solution, before = drive(driver, federation, checkpoint, watch)
            return solution

        found = solved(spec, federation, problem, agreement, driven)
    if not found.solution.converged and noise_of(spec) is None:
        warnings.warn(ConvergenceWarning(not_converged(spec, found.solution)), stacklevel=3)
    return Fit(
        **found._asdict(),
        spec=spec,
        agreement=agreement,
        fingerprints=told_of(spec, job.fingerprints),
        dropped={table.name: table.dropped for table in job.tables},
        traffic=list(before.traffic),
        ledger=dict(federation.ledger),
        seconds=before.seconds + time.monotonic() - begun,
        tallies=told_of(spec, {table.name: tally(table, spec) for table in job.tables}),
    )


def federation_of(
    spec: Spec, problem: Problem, shards: Shard, sites: Sequence[str]
) -> LocalFederation:
    """The sites of a run, in this process."""
    if (noise := noise_of(spec)) is None:
        return LocalFederation(problem, shards, sites, spec.seed, spec.cohort)
    if spec.dp_honest is not None:
        raise InputError(
            "key 'dp_honest' is for real sites, each of which adds noise of its own; here it is "
            "added once, so leave it out."
        )
    return NoisyFederation(noise, problem, shards, sites, spec.seed)


def told_of(spec: Spec, by_site: Mapping[str, Any]) -> dict[str, Any]:
    """What a result tells of the sites' rows beside the model: nothing, with privacy noise."""
    return dict(by_site) if noise_of(spec) is None else {}


class Trained(NamedTuple):
    """What sites that have agreed come to."""

    method: Method
    model: Model
    solution: Solution
    survival: dict[str, dict[str, Any]] | None
    inference: Inference | None


def solved(
    spec: Spec,
    federation: Federation,
    problem: Problem,
    agreement: Agreement,
    drive: Callable[[Driver], Solution],
) -> Trained:
    """All that follows an agreement, near or far; `drive` solves, and keeps what it needs to."""
    driver = driver_of(spec, federation, problem, agreement)
    if spec.inference:
        refuse_collinear(driver, spec)
    solution = drive(driver)
    told = survival_of(driver, solution)
    inference = inference_of(spec, driver, agreement, solution)
    method = method_for(spec, agreement, federation.link)
    model = Model.of(spec.loss, agreement, solution.x)
    return Trained(method, model, solution, told, inference)


def heading(spec: Spec) -> str:
    """What rounds of training are counted under, where somebody watches."""
    return f"Training on {called(outcome_of(spec))}, rounds"


def standing(record: Record, spec: Spec) -> str:
    """How far a round is from the goal, if it was measured."""
    known = not math.isnan(record.optimality)
    return f"optimality {record.optimality:.1e}, goal {spec.tol:.1e}" if known else ""


def tally(table: Table, spec: Spec) -> dict[str, Any]:
    """What a report says of a site's rows; it is never sent, so a deployed run has none."""
    missing = int(np.isnan(table.A.data if is_sparse(table.A) else table.A).sum())
    return {"filled": missing, "outcome": outcomes(table, spec)}


def outcomes(table: Table, spec: Spec) -> dict[str, Any]:
    """What the target holds, in a few numbers; of several, each by its name."""
    tally = loss_of(spec).target.tally
    if not isinstance(spec.target, tuple):
        return tally(table.y)
    each = zip(spec.target, table.y.T, strict=True)
    return {f"{name}: {key}": held for name, y in each for key, held in tally(y).items()}


def driver_of(spec: Spec, federation: Federation, problem: Problem, agreement: Agreement) -> Driver:
    if spec.inference:
        refuse_inference(spec, agreement)
    g = on_coefficients(spec, agreement.features, len(agreement.targets))
    if noise_of(spec) is not None:
        return NoisyRounds(federation, problem, np.array(agreement.weights), settings_of(spec))
    unit = np.array(agreement.unit)
    gap = lambda driver, x, look, wanted: duality_gap(driver, g, x, look, unit, wanted)
    common = (federation, problem, np.array(agreement.weights), settings_of(spec), gap)
    if fixed.applies(spec):
        fixed.refuse_nonsense(spec, problem, agreement.rows)
        return fixed.FixedSteps(*common, fixed.named(spec))
    if method_for(spec, agreement, federation.link).name == "newton":
        refuse_newton(spec, agreement)
        return (NewtonOnSets if on_sets(spec, agreement) else Newton)(*common)
    return Solver(*common)


def inference_of(
    spec: Spec, driver: Driver, agreement: Agreement, solution: Solution
) -> Inference | None:
    """Standard errors, if asked for; there are none of a model that is not the optimum."""
    wanted = spec.inference and solution.converged
    return infer(driver, spec, agreement, solution.x) if wanted else None


def survival_of(driver: Driver, solution: Solution) -> dict[str, dict[str, Any]] | None:
    """What each site tells of the model, by name, if the loss has it tell anything.

    Hazards of sites do not add up, so where only sums are known there are none.
    """
    loss: Any = driver.problem.loss
    if not (loss.has_survival and driver.federation.by_site):
        return None
    answers = driver.federation.ask("survival", {"x": solution.x})
    plain = lambda told: {name: np.asarray(value).tolist() for name, value in told.items()}
    return {site: plain(answers[site]) for site in driver.federation.sites}


def settings_of(spec: Spec) -> Settings:
    return Settings(**{field.name: getattr(spec, field.name) for field in fields(Settings)})


def not_converged(spec: Spec, solution: Solution) -> str:
    if solution.obstacle:
        return f"Not converged after {len(solution.records)} rounds: {solution.obstacle}"
    remedies = ["allow more rounds", "a larger tolerance"]
    remedies += [] if spec.standardise else ["standardise the features"]
    short = shortfall(solution.optimality, solution.relative_gap, spec.tol)
    return f"Not converged after {len(solution.records)} rounds: {short}; {', or '.join(remedies)}."


def drive(
    driver: Driver,
    federation: LocalFederation,
    checkpoint: Path | None,
    watch: Callable[[Record], None],
) -> tuple[Solution, Progress]:
    """Solve, from a checkpoint if there is one, keeping one on the way.

    Also the traffic after each round, and the seconds before the checkpoint, as progress has them.
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
            clients=federation.generations.get(int(state.counted), ()),
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
    return solution, before._replace(traffic=traffic)
