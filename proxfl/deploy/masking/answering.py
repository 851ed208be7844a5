"""What one site adds to the sums of a training run that it follows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.training import DOWN, SETTINGS, MaskedTraining, SumFederation
from proxfl.deploy.protocol.experiment import first_state
from proxfl.deploy.protocol.trees import rebuild, unpack
from proxfl.engine.visit import round_key, visit
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.storage.checkpoint import named_arrays
from proxfl.storage.files import remove, write_bytes
from proxfl.tables import Table
from proxfl.tables.sites import arranged
from proxfl.train.agreement import row_counts, shards_for
from proxfl.train.federation import Call
from proxfl.train.tasks import STEPS_BACK, TASKS


class MaskedSite:
    """What one site says to the questions of a run that it follows.

    `guarded` makes of the problem one whose loss is not a number where too few rows are behind it,
    and `enough` says whether as many as needed are behind an answer about a model.
    """

    def __init__(
        self,
        run: MaskedTraining,
        table: Table,
        folder: Path,
        guarded: Callable[[Problem], Problem] = lambda problem: problem,
        enough: Callable[[Problem, Shard, Any], bool] = lambda problem, shard, x: True,
    ):
        self.run, self.table, self.folder = run, arranged(table, run.features), folder
        self.guarded, self.enough = guarded, enough
        self.counts = row_counts(table, run.spec)
        self.mass = float(self.counts.sum()) if run.spec.weights == "samples" else 1.0
        self.shard: Shard | None = None

    def __call__(self, question: Question) -> tuple[np.ndarray, bool]:
        """The site's sums, and whether they may leave it."""
        kind, *points = question.kind.split()
        with precision(np.float64):
            if kind in TASKS:
                return self.perform(kind, points, question)
            if kind == "round":
                return self.visit(question)
        table = self.table.dense
        present = ~np.isnan(table)
        if kind == "rows":
            return self.rows(), True
        if kind == "sums":
            held = np.where(present, table, 0.0)
            return np.concatenate([self.counts @ present, self.counts @ held]), True
        apart = np.where(present, table - question.numbers["mean"], 0.0)
        return self.counts @ apart**2, True

    def rows(self) -> np.ndarray:
        held = [self.mass, self.table.rows, self.counts.sum(), 1.0, self.table.dropped]
        return np.array(held, float)

    def perform(self, task: str, points: list[str], question: Question) -> tuple[np.ndarray, bool]:
        federation, shard = self.prepared()
        payload = unpack(question.numbers, points, federation.problem.x0)
        problem, sound = federation.problem, True
        if task in STEPS_BACK:
            problem = self.guarded(problem)
        else:
            sound = self.enough(problem, shard, payload["x"])
        return in_sum(TASKS[task](problem, shard, payload), self.mass), sound

    def prepared(self) -> tuple[SumFederation, Shard]:
        """What the run is about, and the site's rows as it wants them."""
        agreement, federation = self.run.agreement, self.run.federation
        if agreement is None or federation is None:
            raise ValueError("A run asks for this after its sites have agreed.")
        if self.shard is None:
            shards = shards_for(self.run.spec, [self.table], agreement, np.ones(1))
            self.shard = jax.tree.map(lambda a: a[0], shards)
        shard: Any = self.shard
        return federation, shard

    def visit(self, question: Question) -> tuple[np.ndarray, bool]:
        """One client's part of one exchange; the state it ends in is on the disk before it."""
        federation, shard = self.prepared()
        if federation.visiting is None:
            raise ValueError("A run asks for this in a round.")
        call = Call(*question.numbers["call"].tolist())
        algorithm = rebuilt(question, federation.visiting.algorithm, SETTINGS)
        down = rebuilt(question, federation.visiting.down, DOWN)
        state = self.recall(call.counted, first_state(algorithm, federation.problem))
        key = round_key(jax.random.key(self.run.spec.seed), call.round, call.exchange)
        about = (algorithm, self.guarded(federation.problem), shard, state, down, key)
        reply = visit(*about, exchange=call.exchange)
        self.remember(call, reply.state)
        return in_sum((reply.up, dict(reply.info)), self.mass), True

    def path(self, step: int) -> Path:
        return self.folder / f"state-{step}.safetensors"

    def recall(self, step: int, first: Any) -> Any:
        """The client's state after a step, or before any."""
        if not self.path(step).exists():
            return first
        return rebuild(safetensors.numpy.load(self.path(step).read_bytes()), first, "The state")

    def remember(self, call: Call, state: Any) -> None:
        """Put a state on the disk, and forget those that no step can start from any more."""
        held = {name: np.asarray(leaf) for name, leaf in named_arrays(state).items()}
        write_bytes(self.path(call.step), safetensors.numpy.save(held), private=True)
        keep = {self.path(call.step), self.path(call.counted)}
        for path in set(self.folder.glob("state-*.safetensors")) - keep:
            remove(path)


def rebuilt(question: Question, like: Any, group: str) -> Any:
    """What a group of a question's numbers stands for."""
    held = {k: v for k, v in question.numbers.items() if k.startswith(group)}
    return rebuild({k.removeprefix(group): v for k, v in held.items()}, like, f"The {group}")


def in_sum(answer: Any, mass: float) -> np.ndarray:
    """A site's means as what they add to the sum of all; a truth counts as one."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(answer)]
    weigh = lambda leaf: leaf * (1.0 if leaf.dtype == bool else mass)
    return np.concatenate([np.ravel(weigh(leaf)).astype(float) for leaf in leaves])
