"""A path and its folds from sums alone are those of `proxfl path` over the same files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking.answering import TOO_LARGE
from proxfl.deploy.masking.messages import Charter
from proxfl.deploy.masking.path import PLACES, PathOfSums
from proxfl.deploy.masking.path_answering import PathAnswers
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.protocol.study import make_study
from proxfl.train.choice import Choice
from proxfl.train.folds import path_with_folds
from proxfl.train.spec import Spec, loss_of
from proxfl.train.train import read_tables

NAMES = ("east", "north", "south")
SHORT = Choice(points=4, ratio=0.05, folds=3)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sites that differ in size; a column has gaps, and rows count differently."""
    rng, folder, made = np.random.default_rng(0), tmp_path_factory.mktemp("data"), []
    for i, name in enumerate(NAMES):
        A = rng.normal(size=(33 + 9 * i, 3)) * [1, 10, 0.1] + 0.3 * i
        y = A @ [1.0, 0.1, 5.0] + rng.normal(size=len(A))
        A[::7, 1] = np.nan
        made.append(folder / f"{name}.csv")
        frame = pd.DataFrame(A, columns=list("abc")).assign(y=y, k=1 * (y > 0.3 * i))
        frame.assign(n=rng.integers(1, 4, len(A))).to_csv(made[-1], index=False)
    return [str(path) for path in made]


KINDS = {
    "logistic": {"target": "k", "loss": "logistic", "exclude": ["y", "n"], "missing": "mean"},
    "squared": {"target": "y", "loss": "squared", "exclude": ["k", "n"], "missing": "mean"}
    | {"standardise": True, "weights": "uniform"},
    "weighted": {"target": "y", "loss": "squared", "exclude": ["k"], "missing": "mean"}
    | {"row_weights": "n", "intercept": False},
    "cox": {"time": "n", "event": "k", "loss": "cox", "exclude": ["y"], "missing": "mean"},
}


def refused(*about):
    return False


def test_few_rows_of_a_fold_hide_what_it_leaves_too(files):
    """Else the difference to all rows would tell of the fold."""
    spec = Spec(sites=files, **KINDS["squared"]).read_files()
    tables = read_tables(spec)
    program, asked = from_sums(spec, SHORT, tables)
    table, folder = tables[0], Path(".")
    strict, loose = (
        PathAnswers(program, 0, table, folder, *rule) for rule in ((same, refused), ())
    )
    question, *_ = (q for q in asked if q.kind.split()[0] == "models")
    width = question.length // 4
    hidden, told = (site(question)[0].reshape(4, width) for site in (strict, loose))
    np.testing.assert_array_equal(hidden[0], told[0])  # of all rows
    assert told[1:].any(axis=1).all()
    value = np.unique(hidden[1:])
    assert set(value) <= {0.0, TOO_LARGE}
    (judging,) = (q for q in asked if q.kind.split()[0] == "left_out")
    assert not strict(judging)[1] and loose(judging)[1]
    place = question.numbers | {PLACES: np.array([0, 1, 2, 4])}
    with pytest.raises(ValueError, match="a set that there is"):
        loose(Question(question.kind, place, question.length))


def same(problem):
    return problem


def from_sums(spec, choice, tables):
    """The program of a path over sums that nobody masks; and what was asked."""
    study, asked = make_study("path", "field", NAMES, spec, unmasked=True, choice=choice), []
    classes = loss_of(spec).target.labels
    labels = sorted({label for table in tables for label in classes(table.y)})
    charter, here = Charter(tables[0].features, tuple(labels)), Path(".")
    each = enumerate(tables)
    sites = [PathAnswers(PathOfSums(study, charter), i, table, here) for i, table in each]
    program = PathOfSums(study, charter)

    def ask(question):
        asked.append(question)
        for site in sites:
            site.run.agreements = program.agreements
        answers = [site(question) for site in sites]
        assert all(sound and len(values) == question.length for values, sound in answers)
        return sum(values for values, _ in answers)

    program(ask)
    return program, asked


@pytest.mark.parametrize(
    ("kind", "by"),
    [("logistic", "rows"), ("squared", "sites"), ("weighted", "rows"), ("cox", "rows")],
)
def test_a_path_of_sums_is_that_of_the_files(kind, by, files):
    spec, choice = Spec(sites=files, **KINDS[kind]).read_files(), SHORT.replace(by=by)
    tables = read_tables(spec)
    there, asked = from_sums(spec, choice, tables)
    path, scores = path_with_folds(spec, tables, choice)
    near = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(there.path.weights, path.weights, **near)
    np.testing.assert_allclose(there.path.coef, path.coef, **near)
    for name in ("losses", "shares", "rounds"):
        np.testing.assert_allclose(getattr(there.validation, name), getattr(scores, name), **near)
    assert there.validation.scores.keys() == scores.scores.keys() - {"auc", "concordance"}
