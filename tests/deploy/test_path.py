"""`proxfl path` over real sites is `proxfl path` over their files."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking.messages import Charter, question_payload
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.protocol.study import make_study, read_study
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.options import RunOptions, refuse_options
from proxfl.deploy.server.path import KeptSums
from proxfl.errors import InputError
from proxfl.train.choice import Choice
from proxfl.train.folder import read_model
from proxfl.train.folds import path_with_folds
from proxfl.train.spec import Spec
from proxfl.train.train import begin, read_tables, run
from tests.deploy.field import LOOSE, NAMES, Field

SHORT = Choice(points=3, ratio=0.1, folds=3)
ANY = LOOSE.replace(automatic=("train", "path"))
PROBLEM = {"target": "y", "loss": "logistic"}


def asked(folder, choice=SHORT, masked=False, policy=ANY, **options):
    field = Field(folder, policy=policy, masked=masked)
    field.ask(choice, **PROBLEM | options)
    if masked:
        field.confirm()
    return field


def over_files(field):
    """The path of the same files in one process, and its chosen model."""
    spec = field.spec.replace(sites=[str(file) for file in field.files])
    found, scores = path_with_folds(spec, read_tables(spec), field.study.choice)
    return found, scores, run(begin(found.spec_at(scores.chosen(found.choice.rule))))


LAWS = [
    (False, {"loss": "logistic"}),
    (False, {"loss": "squared", "standardise": True}),
    (True, {"loss": "logistic"}),
    (True, {"loss": "squared"}),
]


@pytest.mark.parametrize(("masked", "options"), LAWS)
def test_a_path_over_sites_is_that_over_their_files(masked, options, tmp_path):
    field = asked(tmp_path, masked=masked, **options)
    there, (path, scores, fit) = field.run(), over_files(field)
    near = {"rtol": 1e-10, "atol": 1e-10} if masked else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(there.path.weights, path.weights, **near)
    np.testing.assert_allclose(there.path.coef, path.coef, **near)
    np.testing.assert_allclose(there.validation.losses, scores.losses, **near)
    np.testing.assert_allclose(there.validation.shares, scores.shares, **near)
    assert there.chosen == scores.chosen("1se")
    np.testing.assert_allclose(there.fit.model.coef, fit.model.coef, **near)
    saved, _ = read_model(tmp_path / "results")  # a path's folder stands for its model
    np.testing.assert_array_equal(saved.coef, there.fit.model.coef)
    told = json.loads((tmp_path / "results" / "path.json").read_text())
    assert told["weight"] == there.path.weights[there.chosen]
    assert len(pd.read_csv(tmp_path / "results" / "folds.csv")) == 9


class Crash(BaseException):
    """As when the server is killed."""


def crash_at(number):
    def spoil(federation):
        ask, times = federation.ask, 0

        def asking(task, payload, **more):
            nonlocal times
            times += task in ("sums", "step")
            if times == number:
                raise Crash
            return ask(task, payload, **more)

        federation.ask = asking

    return spoil


@pytest.mark.parametrize("masked", [False, True], ids=["clear", "masked"])
def test_a_path_that_was_killed_goes_on_to_the_same_bits(masked, tmp_path):
    """What was asked before is not asked again."""
    field = asked(tmp_path, masked=masked, loss="squared")
    with pytest.raises(Crash):
        field.run("out", crash_at(5))
    field.sites["south"].restart()
    found = field.run("out")
    other = asked(tmp_path / "other", masked=masked, loss="squared")
    wanted = other.run("out")
    for there, here in (found.path.coef, wanted.path.coef), (found.fit.model, wanted.fit.model):
        there, here = getattr(there, "coef", there), getattr(here, "coef", here)
        np.testing.assert_array_equal(there, here)
    of_both = [one.path.traffic.exchanges for one in (found, wanted)]
    assert of_both[0] < of_both[1]


def test_sums_that_are_not_those_of_a_question_are_refused(tmp_path):
    question = Question("rows", {}, 3)
    kept = KeptSums(tmp_path, "tables")
    place = kept.place(question)
    assert kept.sum_at(*place) is None
    kept.keep(*place, np.arange(3.0))
    np.testing.assert_array_equal(KeptSums(tmp_path, "tables").sum_at(*place), np.arange(3.0))
    for tables, asks in [("others", question), ("tables", Question("rows", {}, 4))]:
        again = KeptSums(tmp_path, tables)
        with pytest.raises(InputError, match="other data at a site, other options or another"):
            again.sum_at(*again.place(asks))
    place[0].write_bytes(b"torn")
    with pytest.raises(InputError, match="does not fit its digest"):
        kept.sum_at(*place)


def fewest_of_a_label(files):
    return min(pd.read_csv(file).y.value_counts().min() for file in files)


# Rules that hold for the rows of every fold, and that a study of training keeps.
RULES = {
    "rows": (lambda files: 20, "it takes part with 20 rows or more in each fold"),
    "count": (fewest_of_a_label, "that of fewer than .* rows of a fold"),
    "parameters_per_row": (lambda files: 0.5, "a model of 12 parameters is too large"),
    "questions_per_row": (lambda files: 0.5, "asks 21 questions or more, which is more than"),
    "hessians": (lambda files: False, "it tells no Hessian, which a path needs"),
    "automatic": (lambda files: ("train",), "a person there decides about studies that path"),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_of_a_site_hold_for_every_fold(rule, tmp_path):
    field = asked(tmp_path)
    limit, words = RULES[rule]
    kind = type(getattr(ANY, rule))
    strict = ANY.replace(**{rule: kind(limit(field.files))})
    for site in field.sites.values():
        site.worker.office.given = strict
    with pytest.raises(TooFewSites, match=words):
        field.propose()
    field.ask(**PROBLEM | {"algorithm": "decoupled"})
    field.propose()  # which trains, on all rows


def test_a_site_answers_a_path_about_what_it_has_agreed_to_only(tmp_path):
    field = asked(tmp_path, loss="squared")
    found = field.run()
    sites = field.reach(field.study.id)
    charter = {"charter": Charter(found.path.agreement.features, ()).text}
    x = {f"x.params.{name}": a for name, a in (("coef", np.zeros(5)), ("intercept", np.zeros(())))}
    about = lambda kind, **numbers: question_payload(Question(kind, x | numbers, 7))
    none = np.zeros(0, np.int64)  # by which a question counted as one about no model
    agreement = found.path.agreement.to_dict()
    other = agreement | {"scale": [2.0 * s for s in agreement["scale"]]}
    for task, payload, words in [
        ("agree", charter | {"agreements": json.dumps([other] * 4)}, "it agrees once"),
        ("agree", charter | {"agreements": "[1]"}, "cannot be read"),
        ("sums", charter | question_payload(Question("round", {}, 3)), "failed with ValueError"),
        ("sums", charter | about("evaluate x", places=none), "failed with ValueError"),
        ("sums", charter | about("evaluate x", u=np.zeros(9)), "failed with ValueError"),
        ("sums", charter | about("information x"), "not asked for information in this study"),
        ("sums", question_payload(Question("rows", {}, 3)), "The charter cannot be read"),
        ("evaluate", {"x": np.zeros(5)}, "knows no task"),
        ("summary", {}, "knows no task"),
    ]:
        with pytest.raises(TooFewSites, match=words):
            sites.ask(task, payload)
    lines = (tmp_path / "north" / "audit.jsonl").read_text().splitlines()
    told = [line["models"] for line in map(json.loads, lines) if line["what"] == "answer"]
    assert sum(told) == field.office(0).audit.answers[field.study.id] >= field.study.questions


@pytest.mark.parametrize(
    ("options", "choice", "given", "words"),
    [
        ({"algorithm": "decoupled"}, SHORT, {}, "made with Newton's method"),
        ({"batch": 9}, SHORT, {}, "made with Newton's method"),
        ({}, SHORT.replace(by="sites"), {}, "shows that site's own part of a sum; use --by rows"),
        ({}, SHORT, {"rounds": 9}, "asked with its study's own rounds; write another"),
        ({}, SHORT, {"quorum": 2}, "needs every site in every exchange"),
    ],
)
def test_what_a_path_over_sites_cannot_be_is_refused(options, choice, given, words):
    spec = Spec(**{k: v for k, v in (PROBLEM | options).items() if v is not None})
    with pytest.raises(InputError, match=words):
        refuse_options(make_study("s", "f", NAMES, spec, choice=choice), RunOptions(**given))


def test_a_study_of_a_path_says_what_is_asked_and_nothing_of_the_weight():
    made = make_study("s", "f", NAMES, Spec(**PROBLEM), choice=SHORT)
    assert read_study(made.text).choice == SHORT and "l1" not in tomllib.loads(made.text)["problem"]
    for odd in (made.text + "\n[problem]\n", made.text.replace("folds = 3", "folds = 10_000")):
        with pytest.raises(InputError):
            read_study(odd)
    with pytest.raises(InputError, match="'l1', the weight that its path chooses"):
        read_study(made.text.replace("[problem]", "[problem]\nl1 = 0.5"))
