"""Train on files, one per site: agree, solve, certify; interruptible, and resumed to the same bits."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.checkpoint import load, save
from proxfl.fit.agreement import Agreement, agree, prepare, problem_of, summarise
from proxfl.fit.local import LocalFederation
from proxfl.fit.model import Model
from proxfl.fit.solver import Record, Settings, Solution, Solver, State, algorithm_for, solve
from proxfl.penalties import read_files
from proxfl.precision import precision
from proxfl.problem import shards_of
from proxfl.spec import Spec
from proxfl.tables import Table, read_sites

CHECKPOINT_SECONDS = 5.0


class ConvergenceWarning(UserWarning):
    """The rounds were used up before the certificate was met."""


@dataclass(frozen=True)
class Fit:
    """A trained model with its certificate, its history and what made it."""

    spec: Spec
    agreement: Agreement
    model: Model
    solution: Solution
    fingerprints: dict[str, str]
    site_losses: dict[str, float]
    bytes_up: int
    bytes_down: int
    seconds: float

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
    begun = time.monotonic()
    spec = read_files(spec)
    tables = read_sites(spec.sites, spec.target, spec.missing) if tables is None else tables
    agreement = agree(spec, {table.name: summarise(table, spec) for table in tables})
    with precision(np.float64):
        problem = problem_of(spec, agreement)
        examples = [prepare(table, spec, agreement) for table in tables]
        shards = shards_of(examples, list(agreement.weights))
        federation = LocalFederation(problem, shards, agreement.sites, spec.seed)
        solver = Solver(federation, problem, np.array(agreement.weights), settings_of(spec))
        solution = run(solver, federation, checkpoint, watch)
        losses = federation.ask("evaluate", {"x": solution.x})
    if not solution.converged:
        warnings.warn(
            ConvergenceWarning(
                f"Not converged after {len(solution.records)} rounds: optimality "
                f"{solution.optimality:.2e} is above the tolerance {spec.tol:.2e}; allow more "
                "rounds or a larger tolerance."
            ),
            stacklevel=2,
        )
    return Fit(
        spec=spec,
        agreement=agreement,
        model=Model.of(spec.loss, agreement, solution.x),
        solution=solution,
        fingerprints={table.name: table.fingerprint for table in tables},
        site_losses={site: float(answer["value"]) for site, answer in losses.items()},
        bytes_up=federation.bytes_up,
        bytes_down=federation.bytes_down,
        seconds=time.monotonic() - begun,
    )


def settings_of(spec: Spec) -> Settings:
    return Settings(
        rounds=spec.rounds,
        tol=float(spec.tol),
        local_steps=spec.local_steps,
        accelerate=spec.accelerate,
        eta=None if spec.eta is None else float(spec.eta),
        eta_g=None if spec.eta_g is None else float(spec.eta_g),
    )


def run(
    solver: Solver,
    federation: LocalFederation,
    checkpoint: Path | None,
    watch: Callable[[Record], None],
) -> Solution:
    """Solve, from a checkpoint if there is one, keeping one on the way."""
    state, records = None, []
    if checkpoint is not None and checkpoint.exists():
        state, records = restore(checkpoint, solver, federation)
    latest: tuple[State, list[Record]] | None = None
    saved = time.monotonic()

    def keep(state: State, records: list[Record]) -> None:
        nonlocal latest, saved
        latest = (state, records)
        watch(records[-1])
        if checkpoint is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            store(checkpoint, state, records, federation)
            saved = time.monotonic()

    try:
        return solve(solver, state, records, keep)
    except KeyboardInterrupt:
        if checkpoint is not None and latest is not None:
            store(checkpoint, *latest, federation)
        raise


def store(path: Path, state: State, records: list[Record], federation: LocalFederation) -> None:
    clients = federation.generations[int(state.counted)]
    columns = {name: np.array([r._asdict()[name] for r in records]) for name in Record._fields}
    traffic = np.array([federation.bytes_up, federation.bytes_down])
    save(path, {"state": state, "clients": clients, "records": columns, "traffic": traffic})


def restore(
    path: Path, solver: Solver, federation: LocalFederation
) -> tuple[State, list[Record]]:
    """The state a run stopped in; the sites get theirs back too."""
    fresh = solver.begin()
    algorithm = algorithm_for(solver.settings, fresh.eta, solver.eta_g)
    with np.load(path, allow_pickle=False) as held:
        rounds = len(held["['records']['round']"])
    like: dict[str, Any] = {
        "state": fresh,
        "clients": federation.recall(algorithm, 0),
        "records": {
            "round": np.zeros(rounds, int),
            "objective": np.zeros(rounds),
            "optimality": np.zeros(rounds),
            "eta": np.zeros(rounds),
            "counted": np.zeros(rounds, bool),
        },
        "traffic": np.zeros(2, int),
    }
    found = load(path, jax.tree.map(jnp.asarray, like))
    columns = {name: np.asarray(column) for name, column in found["records"].items()}
    records = [
        Record(*(columns[name][i].item() for name in Record._fields)) for i in range(rounds)
    ]
    federation.generations = {int(found["state"].counted): found["clients"]}
    federation.bytes_up, federation.bytes_down = (int(v) for v in found["traffic"])
    return found["state"], records
