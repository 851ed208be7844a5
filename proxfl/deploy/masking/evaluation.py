"""Scores of a model from sums alone.

    scores      the sums of the model's scorecard over a site's rows
    draws       the same of each draw of them, as much of it as scores need

Both are long, and asked in parts. What cells the rows of all sites are in is known once the scores
are, so that of draws only these cells are asked.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np

from proxfl.deploy.masking.replica import Ask, Question
from proxfl.deploy.masking.training import size_of
from proxfl.deploy.protocol.study import Study, applied
from proxfl.tables import Table
from proxfl.train.applied import Applied, SiteRows
from proxfl.train.evaluate import Draw, Evaluation, EvaluationSums, judged_by, site_sums, tell

SCORES, DRAWS = KINDS = ("scores", "draws")
MOST = 2**21  # numbers of all sites together in one exchange: each site gets them all


class MaskedEvaluation:
    """The program of an evaluation; `found` is known once it has come to it."""

    def __init__(self, study: Study):
        self.study, self.applied = study, applied(study)
        self.card = self.applied.loss.target.scorecard
        self.like = like_sums(self.applied)
        self.needed: dict[str, Any] = {}
        self.found: Evaluation | None = None

    def __call__(self, ask: Ask) -> Question:
        whole = self.asked(ask, SCORES, size_of(self.like))
        sums = shaped(whole, self.like)
        names = sums.keys() - self.card.only_of_curves
        every = {name: np.ones(np.shape(a), bool) for name, a in sums.items()} | self.card.needed(
            sums
        )
        self.needed = {name: held for name, held in every.items() if name in names}
        draws, each = self.study.how.draws, sum(int(a.sum()) for a in self.needed.values())
        drawn = self.asked(ask, DRAWS, draws * each).reshape(draws, each)
        total = EvaluationSums(sums, self.spread(drawn))
        self.found = Evaluation(judged_by(self.card, total), {}, len(self.study.sites))
        # What is signed with it, the tip, is bound to all sums.
        return Question("evaluation", {name: sums[name] for name in ("rows", "loss")}, 0)

    def asked(self, ask: Ask, kind: str, size: int) -> np.ndarray:
        """So many numbers, in as many parts as it takes."""
        parts = [
            ask(Question(kind, {"from": np.array(start)}, min(self.most, size - start)))
            for start in range(0, size, self.most)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    @property
    def most(self) -> int:
        """How many numbers a site tells in one exchange."""
        return MOST // len(self.study.sites)

    def spread(self, drawn: np.ndarray) -> dict[str, np.ndarray]:
        """The needed numbers of draws at their places, 0 at the others."""
        made, start = {}, 0
        for name, needed in self.needed.items():
            made[name] = np.zeros((len(drawn), *needed.shape))
            end = start + int(needed.sum())
            made[name][:, needed] = drawn[:, start:end]
            start = end
        return made


class EvaluatedSite:
    """What one site says to the questions of an evaluation that it follows."""

    def __init__(self, run: MaskedEvaluation, table: Table, draw: Draw):
        self.run, self.table, self.draw = run, table, draw

    @cached_property
    def own(self) -> EvaluationSums:
        return tell(self.run.applied, self.table, self.draw, self.run.study.how)

    @cached_property
    def scores(self) -> np.ndarray:
        return flat(self.own.sums)

    @cached_property
    def drawn(self) -> np.ndarray:
        parts = [self.own.drawn[name][:, held] for name, held in self.run.needed.items()]
        return np.hstack(parts).ravel()

    def __call__(self, question: Question) -> tuple[np.ndarray, bool]:
        start = int(question.numbers["from"])
        whole = self.scores if question.kind == SCORES else self.drawn
        return whole[start : start + question.length], True


def like_sums(applied: Applied) -> dict[str, np.ndarray]:
    """What the sums of any site look like: those of one row that nobody has."""
    loss, model = applied.loss, applied.model
    z = model.scores(np.zeros((1, len(model.features))))
    form = loss.target.encoded(1, len(model.outputs))
    y = jax.tree.map(lambda a: np.full(a.shape, a.dtype.kind != "i", a.dtype), form)
    sums = site_sums(loss, SiteRows(z, y, loss.mean(z), np.ones(1)), 0.5)
    return {name: np.asarray(a) for name, a in sums.items()}


def flat(sums: Mapping[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in sums.values()]).astype(float)


def shaped(numbers: np.ndarray, like: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inverse of `flat`."""
    ends = np.cumsum([np.size(a) for a in like.values()])[:-1]
    parts = zip(like.items(), np.split(numbers, ends), strict=True)
    return {name: part.reshape(np.shape(a)) for (name, a), part in parts}
