"""What one site adds to the sums of a path: of all its rows, and of those that each fold leaves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from proxfl.deploy.masking.answering import TOO_LARGE, MaskedSite, bounded
from proxfl.deploy.masking.path import LEFT_OUT, MODELS, PLACES, PathOfSums
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.protocol.trees import unpack
from proxfl.engine.masked import in_sum
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.tables import Table
from proxfl.train.agreement import shards_for
from proxfl.train.folds import deal_at, judged_by
from proxfl.train.path import padded_size
from proxfl.train.tasks import TASKS, part_way, refuse_odd


class PathAnswers(MaskedSite):
    """What one site says to the questions of a path; `number` is its place among the sites.

    A fold's rows count as those it leaves do: where too few of either are behind an answer, there
    is none, since the difference of two answers is about the fold.
    """

    run: PathOfSums

    def __init__(
        self,
        run: PathOfSums,
        number: int,
        table: Table,
        folder: Path,
        guarded: Callable[[Problem], Problem] = lambda problem: problem,
        enough: Callable[[str, Problem, Shard, Any], bool] = lambda task, problem, shard, x: True,
    ):
        super().__init__(run, table, folder, guarded, enough)
        dealt = deal_at(run.spec, run.choice, self.table, number)
        folds = range(len(run.folds))
        self.left = [self.table, *(self.table.only(dealt != k) for k in folds)]
        self.out = [self.table.only(dealt == k) for k in folds]
        self.shards: dict[tuple[int, int], Shard] = {}

    def __call__(self, question: Question) -> tuple[np.ndarray, bool]:
        kind, *points = question.kind.split()
        answer = {MODELS: self.tell, LEFT_OUT: self.judge}.get(kind)
        if answer is None:
            return super().__call__(question)
        with precision(np.float64):
            return answer(points, question)

    def asked(self, points: list[str], question: Question) -> Iterator[tuple[int, dict[str, Any]]]:
        """By model, of which set it is, and what is asked about it."""
        problem, _ = self.prepared()
        places = question.numbers[PLACES].tolist()
        for i, place in enumerate(places):
            if not 0 <= place <= len(self.out):
                raise ValueError("A question is about a set that there is.")
            named = f"{i} "
            held = {
                k.removeprefix(named): v
                for k, v in question.numbers.items()
                if k[: len(named)] == named
            }
            yield place, unpack(held, points, problem.x0)

    def tell(self, points: list[str], question: Question) -> tuple[np.ndarray, bool]:
        problem, _ = self.prepared()
        found = []
        for place, payload in self.asked(points, question):
            refuse_odd("newton", problem, payload)
            found.append(self.told(problem, place, payload))
        return np.concatenate(found), True

    def told(self, problem: Problem, place: int, payload: dict[str, Any]) -> np.ndarray:
        """What a site tells of one model; of a set without rows, nothing that is against it."""
        left = self.left[place]
        if not left.rows:
            _, row = self.prepared()
            shape = jax.eval_shape(TASKS["newton"], problem, row, payload)
            empty = jax.tree.map(lambda a: np.full(a.shape, a.dtype == bool, a.dtype), shape)
            return in_sum(empty, 0.0)
        told = TASKS["newton"](self.guarded(problem), self.shard(place, left), payload)
        out, x = self.out[place - 1], part_way(*(payload[name] for name in ("x", "u", "length")))
        if place and out.rows and not self.enough("newton", problem, self.shard(place, out), x):
            nothing = np.full_like(told["shorter"], TOO_LARGE)
            told = jax.tree.map(np.zeros_like, told) | {"shorter": nothing}  # as if it overflowed
        return in_sum(bounded(told), self.mass_of(left))

    def judge(self, points: list[str], question: Question) -> tuple[np.ndarray, bool]:
        """Of many models, the loss and other means of the rows that their folds left out."""
        problem, _ = self.prepared()
        loss: Any = problem.loss
        asked = list(self.asked(points, question))
        sums, sound = np.zeros((len(asked), 1 + len(loss.target.scores))), True
        for place in {place for place, _ in asked}:
            out, left = self.out[place - 1], self.left[place]
            if not place or not out.rows:
                continue
            where = [i for i, (k, _) in enumerate(asked) if k == place]
            held, before = self.shard(place, out), self.shard(place, left if left.rows else out)
            sound &= all(self.enough("evaluate", problem, held, asked[i][1]["x"]) for i in where)
            models = jax.tree.map(lambda *a: np.stack(a), *(asked[i][1]["x"] for i in where))
            losses, others = judged_by(loss, one(before), one(held), models)
            columns = [losses, *(others[name] for name in sorted(others))]
            sums[where] = np.stack(columns, axis=1) * self.counted(out) / self.by_site
        return sums.ravel(), sound

    def shard(self, place: int, table: Table) -> Shard:
        """Some rows of a set, by what was agreed on for it; all have room for the whole table."""
        key = place, id(table)
        if key not in self.shards:
            about = (self.run.spec, [table], self.run.agreements[place], np.ones(1))
            shards = shards_for(*about, padded_size(self.table.rows))
            self.shards[key] = jax.tree.map(lambda a: a[0], shards)
        return self.shards[key]


def one(shard: Shard) -> Shard:
    """As one of several."""
    return jax.tree.map(lambda a: a[None], shard)
