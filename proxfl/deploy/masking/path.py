"""A path and its cross-validation from sums alone; `path_answering.py` has what a site says.

Sets are all rows and, by fold, the rows that it leaves. Beside the questions of training, about all
rows, there are

    rows, sums, squares   as in training, of every set
    models                what a Newton step asks, of many models, each about one set
    left_out              of models, the loss and other means over the rows that their fold left out

All of it is sums over rows. Areas under curves are not, but for counts in cells so narrow that a
row may be alone in one, so a path over sites has none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from proxfl.deploy.masking.messages import Charter
from proxfl.deploy.masking.replica import Ask, Question
from proxfl.deploy.masking.training import (
    MaskedTraining,
    refuse_chosen_start,
    size_of,
)
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.trees import pack
from proxfl.engine.masked import means
from proxfl.errors import InputError
from proxfl.points import Point
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.prox import Zero
from proxfl.train.agreement import Agreement, problem_of, shard_form
from proxfl.train.choice import Choice
from proxfl.train.drivers import fixed
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.drivers.judged import Totals
from proxfl.train.drivers.together import Query, SharedExchange
from proxfl.train.federation import FAR
from proxfl.train.folds import Validation, refuse_sites, validation
from proxfl.train.local import Traffic
from proxfl.train.method import Method, method_for
from proxfl.train.path import RegularisationPath, course_of
from proxfl.train.spec import Spec
from proxfl.train.tasks import TASKS
from proxfl.train.walk import Walk, by_newton

MODELS, LEFT_OUT = KINDS = ("models", "left_out")  # of a question, beside tasks and what sets up
PLACES = "places"  # the name, in a question, of which set each of its models is about
SHARING = Method("newton", "Newton's method, whose exchanges all weights and folds share.")
MOST, LEAST = 2**18, 2**8  # numbers in an answer; a model counts as so many: more come in parts


def refuse_path(spec: Spec, choice: Choice, sites: int, masked: bool) -> None:
    """Refuse a path that cannot be had from sums by Newton's method."""
    if fixed.applies(spec) or spec.algorithm not in ("auto", "newton"):
        raise InputError(
            "a path over sites is made with Newton's method, which shares its exchanges among "
            "weights and folds; leave out --algorithm, --batch and --cohort."
        )
    if spec.dp_clip is not None:
        raise InputError("a path adds no privacy noise; leave it out, or train at one weight.")
    if choice.by == "sites":
        refuse_sites(spec, sites)
        if masked:
            raise InputError(
                "a fold that is a site shows that site's own part of a sum; use --by rows, or "
                "--unmasked."
            )


class PathOfSums(MaskedTraining):
    """The program of a path, for the server and for every site that follows it.

    `path`, `validation`, `final`, which is the problem of the chosen model, and `found`, which is
    that model, are known at the end. `progress` is told how many models of the path are done.
    """

    def __init__(
        self,
        study: Study,
        charter: Charter,
        watch: Callable[[Driver, list[Record]], None] = lambda driver, records: None,
        progress: Callable[[int], None] = lambda done: None,
    ):
        if study.choice is None:
            raise ValueError("A study of a path has a choice.")
        refuse_path(study.spec, study.choice, len(study.sites), study.masked)
        super().__init__(study.spec, len(study.sites), *charter, watch)
        self.choice, self.folds, self.progress = study.choice, study.folds, progress
        self.path: RegularisationPath | None = None
        self.validation: Validation | None = None

    @property
    def sets_in_all(self) -> int:
        return 1 + len(self.folds)

    def __call__(self, ask: Ask) -> Question:
        with precision(np.float64):
            sums = self.sets(ask)
            agreement, spec = self.agreements[0], self.spec
            course = course_of(agreement, spec, self.choice)
            course.refuse_without_start(agreement)
            refuse_chosen_start(problem_of(spec, agreement))
            about = (self.agreements, sums.problem, course, sums)
            walked = by_newton(*about, SHARING, self.progress)
            self.path = path = RegularisationPath.of(spec, self.choice, agreement, walked)
            self.validation = scores = self.judged(path, sums, walked)
            self.final = by_newtons(path.spec_at(scores.chosen(self.choice.rule)), agreement)
            return self.trained(ask, float(sums.mass[0]))

    def sets(self, ask: Ask) -> "SetsInSums":
        """All sets, once they have agreed."""
        mass, out = self.agree(ask)
        problem = replace(problem_of(self.spec, self.agreements[0]), g=Zero())
        row = shard_form(self.spec, self.agreements[0])
        return SetsInSums(ask, problem, row, mass, out, self.members)

    def judged(self, path: RegularisationPath, sums: "SetsInSums", walked: Walk) -> Validation:
        """What the models of each fold are worth on the rows left out."""
        models = [(k, one.x) for k, found in enumerate(walked.found) for one in found if k]
        table = sums.scores(models).reshape(len(self.folds), len(walked.weights), -1)
        names = sums.score_names
        judged = [
            (each[:, 0], {name: each[:, j + 1] for j, name in enumerate(names)}) for each in table
        ]
        about = (self.folds, sums.out / sums.mass[0], judged, walked.found[1:], Traffic())
        return validation(path, *about)


def by_newtons(spec: Spec, agreement: Agreement) -> Spec:
    """A problem that is solved by the method of the path, whatever else would be taken."""
    newton = method_for(spec, agreement, FAR).name == "newton"
    return spec if newton else spec.replace(algorithm="newton")


class SetsInSums(SharedExchange):
    """All sites as one, for every set; `out` is how much the rows count that a fold left out."""

    members = 1

    def __init__(
        self,
        ask: Ask,
        problem: Problem,
        row: Shard,
        mass: np.ndarray,
        out: np.ndarray,
        members: int,
    ):
        self.asking, self.problem, self.row = ask, problem, row
        self.mass, self.out, self.sites = mass, out, members

    @property
    def score_names(self) -> tuple[str, ...]:
        loss: Any = self.problem.loss
        return tuple(sorted(loss.target.scores))

    def __call__(self, asked: Sequence[Query]) -> list[Totals]:
        shapes: dict[int, Any] = {}
        for _, question in asked:
            width = len(question["features"])
            if width not in shapes:
                about = (self.problem, self.row, dict(question))
                shapes[width] = jax.eval_shape(TASKS["newton"], *about)
        shape_of = lambda one: shapes[len(one.question["features"])]
        totals = []
        for some in in_parts(asked, lambda one: size_of(shape_of(one))):
            kind, numbers = question_of(MODELS, [(a.place, a.question) for a in some])
            sizes = [size_of(shape_of(one)) for one in some]
            total = self.asking(Question(kind, numbers, sum(sizes)))
            each = np.split(total, np.cumsum(sizes)[:-1])
            totals += [
                self.totals(part, shape_of(one), one.place)
                for part, one in zip(each, some, strict=True)
            ]
        return totals

    def totals(self, total: np.ndarray, shape: Any, place: int) -> Totals:
        found = means(total, shape, self.mass[place], self.sites)
        return Totals(
            loss=found["value"],
            gradient=found["gradient"],
            triangle=found["hessian"],
            finite=found["finite"],
            shorter=found["shorter"],
            values=found["value"][None],
        )

    def scores(self, models: Sequence[tuple[int, Point]]) -> np.ndarray:
        """For each model, of the rows that its fold left out, the mean loss, and other means."""
        width, found = 1 + len(self.score_names), []
        for some in in_parts(models, lambda model: width):
            kind, numbers = question_of(LEFT_OUT, [(place, {"x": x}) for place, x in some])
            total = self.asking(Question(kind, numbers, width * len(some))).reshape(-1, width)
            found += list(total / self.out[numbers[PLACES] - 1, None])
        return np.array(found)


def in_parts(asked: Sequence[Any], size: Callable[[Any], int]) -> list[list[Any]]:
    """Questions so few at a time that a message has room for them and their answers."""
    parts, room = [[]], MOST
    for one in asked:
        needs = max(size(one), LEAST)
        if needs > room and parts[-1]:
            parts.append([])
            room = MOST
        parts[-1].append(one)
        room -= needs
    return parts


def models_in(question: Question) -> int:
    """How many models a question is about, by which it counts."""
    return len(question.numbers.get(PLACES, (0,)))


def question_of(
    kind: str, each: Sequence[tuple[int, Mapping[str, Any]]]
) -> tuple[str, dict[str, np.ndarray]]:
    """Many questions of one form in one: each model by itself, since each has its own grid."""
    numbers, points = {PLACES: np.array([place for place, _ in each], np.int64)}, []
    for i, (_, question) in enumerate(each):
        packed, points = pack(question)
        numbers |= {f"{i} {name}": np.asarray(value) for name, value in packed.items()}
    return " ".join([kind, *points]), numbers
