"""What one site adds to the sums of a training run that it follows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.states import States
from proxfl.deploy.masking.training import DOWN, SETTINGS, SETUP, MaskedTraining
from proxfl.deploy.protocol.experiment import first_state
from proxfl.deploy.protocol.trees import rebuild, unpack
from proxfl.engine.masked import in_sum
from proxfl.engine.visit import round_key, visit
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.tables import Table
from proxfl.tables.sites import arranged
from proxfl.train.agreement import problem_of, row_counts, shards_for
from proxfl.train.federation import Call
from proxfl.train.tasks import STEPS_BACK, TASKS, refuse_odd

TOO_LARGE = 2.0**40  # a loss that no honest run takes for a good one


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
        enough: Callable[[str, Problem, Shard, Any], bool] = lambda task, problem, shard, x: True,
    ):
        self.run, self.table = run, arranged(table, run.features)
        self.states = States(folder)
        self.guarded, self.enough = guarded, enough
        # The sets of rows: all of them and, by fold, those that it leaves; and those it left out.
        self.left, self.out = [self.table], list[Table]()
        self.mass = self.mass_of(self.table)
        self.ready: tuple[Problem, Shard] | None = None

    def __call__(self, question: Question) -> tuple[np.ndarray, bool]:
        """The site's sums, and whether they may leave it."""
        kind, *points = question.kind.split()
        with precision(np.float64):
            if kind in TASKS:
                return self.perform(kind, points, question)
            if kind == "round":
                return self.visit(question)
        if kind == "rows":
            return self.rows(), True
        if kind not in SETUP:
            raise ValueError(f"A run does not ask {kind!r}.")
        means = question.numbers.get("mean", [None] * len(self.left))
        each = zip(self.left, means, strict=True)
        counts = lambda table: row_counts(table, self.run.spec)
        return np.concatenate([moments(t.dense, counts(t), mean) for t, mean in each]), True

    def rows(self) -> np.ndarray:
        told = [(self.mass_of(t), float(t.rows), self.counted(t)) for t in self.left]
        out = [self.counted(table) / self.by_site for table in self.out]
        return np.concatenate([np.ravel(told), out, [1.0, self.table.dropped]])

    def counted(self, table: Table) -> float:
        return float(row_counts(table, self.run.spec).sum())

    @property
    def by_site(self) -> float:
        """What the counts of rows are divided by: by all of them, where sites count alike."""
        return 1.0 if self.run.spec.weights == "samples" else self.counted(self.table)

    def mass_of(self, table: Table) -> float:
        """How much a set of rows counts in the mean over sites."""
        by_rows = self.run.spec.weights == "samples"
        return self.counted(table) if by_rows else float(table.rows > 0)

    def perform(self, task: str, points: list[str], question: Question) -> tuple[np.ndarray, bool]:
        problem, shard = self.prepared()
        payload, sound = unpack(question.numbers, points, problem.x0), True
        refuse_odd(task, problem, payload)  # of a path in the clear, it is the server's choice
        if task in STEPS_BACK:
            problem = self.guarded(problem)
        else:
            sound = self.enough(task, problem, shard, payload["x"])
        return in_sum(bounded(TASKS[task](problem, shard, payload)), self.mass), sound

    def prepared(self) -> tuple[Problem, Shard]:
        """What the run is about, and the site's rows as it wants them."""
        agreement = self.run.agreement
        if agreement is None:
            raise ValueError("A run asks for this after its sites have agreed.")
        if self.ready is None:
            shards = shards_for(self.run.spec, [self.table], agreement, np.ones(1))
            shard = jax.tree.map(lambda a: a[0], shards)
            self.ready = problem_of(self.run.spec, agreement), shard
        return self.ready

    def visit(self, question: Question) -> tuple[np.ndarray, bool]:
        """One client's part of one exchange; the state it ends in is on the disk before it."""
        (problem, shard), federation = self.prepared(), self.run.federation
        if federation is None or federation.visiting is None:
            raise ValueError("A run asks for this in a round.")
        call = Call(*question.numbers["call"].tolist())
        algorithm = rebuilt(question, federation.visiting.algorithm, SETTINGS)
        down = rebuilt(question, federation.visiting.down, DOWN)
        state = self.states.recall(call.counted, first_state(algorithm, problem))
        key = round_key(jax.random.key(self.run.spec.seed), call.round, call.exchange)
        about = (algorithm, self.guarded(problem), shard, state, down, key)
        reply = visit(*about, exchange=call.exchange)
        self.states.remember(call, reply.state)
        return in_sum((reply.up, dict(reply.info)), self.mass), True


def rebuilt(question: Question, like: Any, group: str) -> Any:
    """What a group of a question's numbers stands for."""
    held = {k: v for k, v in question.numbers.items() if k.startswith(group)}
    return rebuild({k.removeprefix(group): v for k, v in held.items()}, like, f"The {group}")


def moments(table: np.ndarray, counts: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """By column, counts and sums of what is not missing or, around a mean, sums of squares."""
    present = ~np.isnan(table)
    if mean is None:
        return np.concatenate([counts @ present, counts @ np.where(present, table, 0.0)])
    return counts @ np.where(present, table - mean, 0.0) ** 2


def bounded(answer: dict[str, Any]) -> dict[str, Any]:
    """Losses on the way to a model as a sum has room for them: there, too large is large enough."""
    if "shorter" not in answer:
        return answer
    return answer | {"shorter": np.minimum(answer["shorter"], TOO_LARGE)}
