"""A hostile server against sites that follow: what it may add or leave out, and what it hears."""

import json

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking.answering import MaskedSite
from proxfl.deploy.masking.record import Transcript
from proxfl.deploy.masking.replica import APART, Question
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.masked import MaskedRun
from proxfl.deploy.site.account import Account
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.reception import Reception
from proxfl.engine import grid
from proxfl.train.spec import Spec
from tests.deploy.field import LOOSE, NAMES, Field, write_data

STRICT = LOOSE.replace(unmasked=False)


def masked(folder, **options):
    field = Field(folder, masked=True, **{"policy": STRICT, "l1": 0.02} | options)
    field.confirm()
    return field


def met(field, change):
    """What a site says to a charter that the server has changed."""
    run = MaskedRun(field.life())
    field.propose()
    members, charter = run.enter()
    (worker,) = field.sites["north"].worker.open.values()
    text = json.dumps([list(charter.features), change(list(charter.labels))])
    keys = json.dumps({member.name: member.key.hex() for member in members.each})
    return worker.setup["meet"]({"members": keys, "charter": text})


MANY = [float(label) for label in range(40)]
CHARTERS = {
    "forty labels": (dict(loss="softmax"), lambda labels: MANY, "240 parameters is too large"),
    "a label twice": (dict(loss="softmax"), lambda labels: [*labels, labels[0]], "a label twice"),
    "labels of numbers": (dict(target="a", loss="squared"), lambda labels: [1.0], "labels where"),
    "labels that a schema names": (
        dict(schema={"y": {"kind": "category", "levels": ["0", "1"]}} | {
            name: {"kind": "number"} for name in "abcde"
        }),
        lambda labels: ["0", "1", "2"],
        "labels where",
    ),
}  # fmt: skip


@pytest.mark.parametrize("charter", CHARTERS)
def test_a_charter_makes_no_model_larger_than_a_site_allows(charter, tmp_path):
    """Any superset of a site's labels got a hello, and each label makes a model so much larger."""
    options, change, words = CHARTERS[charter]
    field = masked(tmp_path, policy=STRICT.replace(parameters_per_row=0.7), **options)
    with pytest.raises(BadMessage, match=words):
        met(field, change)
    assert met(field, lambda labels: labels)["decision"] == "takes part"


def test_classes_that_a_schema_declares_count_where_a_site_has_few_of_them(tmp_path):
    levels = {"kind": "category", "levels": [str(k) for k in range(40)]}
    schema = {"y": levels} | {name: {"kind": "number"} for name in "abcde"}
    field = masked(tmp_path, loss="softmax", schema=schema, policy=Policy(rows=1, count=0))
    with pytest.raises(TooFewSites, match="240 parameters is too large for its rows"):
        field.propose()


def test_a_server_alone_gets_no_model_of_its_own_answered(tmp_path, monkeypatch):
    """Unmasked, it chooses: by far-off models it took most of a table of 2,000 rows."""
    field, honest = masked(tmp_path), MaskedRun.send

    def send(run, call):
        if call.request.step < 6:  # of a model that is not 0, by which it might be scaled
            return honest(run, call)
        asked = call.question
        held = {k: v for k, v in asked.numbers.items() if v.dtype.kind == "f"}
        aside = {k: grid.sent(np.asarray(a * (1 + 4 * APART))) for k, a in held.items()}
        other = Question(asked.kind, asked.numbers | aside, asked.length)
        request = call.request._replace(question=other.content)
        return honest(run, call._replace(request=request, question=other))

    with monkeypatch.context() as patch:
        patch.setattr(MaskedRun, "send", send)
        with pytest.raises(TooFewSites, match="is not the question that follows") as said:
            field.run("out")
    assert all(f"{name} (Site {name} does not answer" in str(said.value) for name in NAMES)
    assert field.run("out").solution.converged  # and the honest run goes on


FOUR = ("east", *NAMES)


class Four:
    """Four sites, and a server that proposes whatever it likes to whomever it likes."""

    def __init__(self, folder, **rules):
        self.policy, self.folder = STRICT.replace(sites=3, **rules), folder
        self.files = write_data(folder / "data")
        self.files = dict(zip(FOUR, [self.files[0], *self.files], strict=True))
        self.membership = Membership("field", FOUR)
        self.open()

    def open(self):
        """Sites as new processes."""
        self.sites = {name: self.site(name) for name in FOUR}

    def site(self, name):
        office = Office(self.folder / name, self.policy)
        return Reception(self.membership, name, self.files[name], office)

    def study(self, *sites, unmasked=False, **options):
        spec = Spec(**{"target": "y", "loss": "logistic", "l1": 0.02} | options)
        return make_study("-".join(sites), "field", sites, spec, unmasked)

    def said(self, study):
        return {name: self.sites[name].decide(study)[0] for name in study.sites}


def test_four_sites_and_three_of_them_tell_the_fourth_to_nobody_unasked(tmp_path):
    """Both were automatic, and together told the fourth's counts, moments, gradient and Hessian."""
    field = Four(tmp_path)
    all_of_them, three = field.study(*FOUR), field.study(*NAMES)
    assert set(field.said(all_of_them).values()) == {"takes part"}
    field.open()
    assert set(field.said(three).values()) == {"waits"}
    others = field.study("east", "north", "south"), field.study(*NAMES, l1=0.03)
    for other in (*others, field.study(*NAMES, target="b", loss="squared", features=("a",))):
        assert set(field.said(other).values()) == {"waits"}
    _, why = field.sites["north"].decide(three)
    assert "what study east-north-south-west told is of east alone, so that masks would" in why
    with pytest.raises(BadMessage, match="waits: what it would tell less"):
        field.sites["north"].worker(wire.tag(three.id))  # nor may the proposal be left out
    for name in NAMES:
        field.sites[name].office.approve(three)
    field.open()
    assert set(field.said(three).values()) == {"takes part"}
    field.open()
    assert set(field.said(all_of_them).values()) == {"takes part"}  # which began before
    assert set(field.said(field.study(*FOUR, l1=0.03)).values()) == {"waits", "takes part"}


def few_rows_fewer(field):
    """A study drops the rows that have no value in a column of its own."""
    for file in field.files.values():
        frame = pd.read_csv(file)
        frame.loc[:5, "e"] = np.nan
        frame.to_csv(file, index=False)
    return dict(missing="drop", features=("a", "b", "e"))


def file_that_grew(field):
    for file in field.files.values():
        frame = pd.read_csv(file)
        frame.assign(f=np.arange(len(frame))).to_csv(file, index=False)
    return dict(features=("a", "b"))


@pytest.mark.parametrize("change", [few_rows_fewer, file_that_grew])
@pytest.mark.parametrize("unmasked", [False, True])
def test_nor_do_three_of_four_about_almost_the_same_rows_or_without_masks(
    change, unmasked, tmp_path
):
    """Only studies of exactly the same rows were held to each other, and only masked ones."""
    field = Four(tmp_path, unmasked=True)
    first = field.study(*FOUR, features=("a", "b"))
    assert set(field.said(first).values()) == {"takes part"}
    options = change(field)
    field.open()
    three = field.study(*NAMES, unmasked=unmasked, **options)
    assert set(field.said(three).values()) == {"waits"}


def test_a_site_that_lost_whose_sums_it_was_in_takes_part_in_nothing_more(tmp_path):
    field = Four(tmp_path)
    first, three = field.study(*FOUR), field.study(*NAMES)
    field.said(first)
    for name in NAMES:
        (tmp_path / name / "studies" / first.id / "company.json").unlink()
    field.open()
    assert set(field.said(three).values()) == {"declines"}
    assert set(field.said(first).values()) == {"takes part"}  # by which it is noted anew
    assert set(field.said(three).values()) == {"waits"}


def test_studies_of_the_same_sites_or_of_other_columns_follow_one_another(tmp_path):
    field = Four(tmp_path)
    numbers = dict(loss="squared", weights="samples")
    first = field.study(*NAMES, target="a", features=("b",), **numbers)
    assert set(field.said(first).values()) == {"takes part"}
    again = field.study(*NAMES, target="b", features=("a",), **numbers)
    other = field.study(*FOUR, target="c", features=("d",), **numbers)
    for study in (again, other):
        assert set(field.said(study).values()) == {"takes part"}


def test_the_same_sites_do_not_count_by_rows_and_alike_in_turn(tmp_path):
    """Of two sums of three parts, a member that knows its own has both others."""
    field, named = Four(tmp_path), dict(features=("a", "b"))
    by_rows = field.study(*NAMES, **named)
    alike = field.study(*NAMES, **named, weights="uniform")
    assert set(field.said(by_rows).values()) == {"takes part"}
    assert set(field.said(alike).values()) == {"waits"}
    _, why = field.sites["north"].decide(alike)
    assert "in study north-south-west the same sites count otherwise" in why
    elsewhere = field.study(*NAMES, target="c", loss="squared", features=("d",), weights="uniform")
    assert set(field.said(elsewhere).values()) == {"takes part"}


def at_call(number, action):
    """Does something before the server of a run asks for so many-th a time."""

    def spoil(federation):
        ask, times = federation.ask, iter(range(10**6))

        def asking(task, payload, **more):
            if next(times) == number:
                action()
            return ask(task, payload, **more)

        federation.ask = asking

    return spoil


def few_rows(field):
    """South may not go on: its owner wants more rows than it has."""
    field.sites["south"].worker.office.given = STRICT.replace(rows=60)
    field.sites["south"].restart()
    field.sites["south"].worker.office.given = STRICT.replace(rows=60)


def other_policy(field):
    field.sites["south"].worker.office.given = STRICT.replace(rows=60)


@pytest.mark.parametrize("happens", [few_rows, other_policy])
def test_a_site_that_may_not_go_on_flags_once_replies_have_begun(happens, tmp_path):
    """It declined by its name and rule, of which the numbers of its rows may be guessed."""
    field = masked(tmp_path)
    with pytest.raises(ValueError, match="^1 members have set their flag") as told:
        field.run("out", at_call(5, lambda: happens(field)))
    assert not any(name in str(told.value) for name in NAMES)
    field.sites["south"].worker.office.given = STRICT
    assert field.run("out").solution.converged


def test_a_budget_that_is_spent_is_a_flag_once_replies_have_begun(tmp_path, monkeypatch):
    noise = dict(loss="squared", dp_clip=1.0, dp_noise=8.0, dp_delta=1e-6, rounds=4, eta=0.02)
    field = masked(tmp_path, l1=0.0, **noise)
    spend, noised = Account.spend, []

    def spending(self, site, seed):
        noised.append(site)
        if noised.count("south") > 2 and site == "south":
            raise BadMessage("Site south has spent what it may.")
        spend(self, site, seed)

    monkeypatch.setattr(Account, "spend", spending)
    with pytest.raises(ValueError, match="^1 members have set their flag") as told:
        field.run()
    assert noised.count("south") == 3 and not any(name in str(told.value) for name in NAMES)


def test_what_fails_at_a_site_is_not_told(tmp_path, monkeypatch):
    field = masked(tmp_path)

    def fails(record, entry):
        raise ZeroDivisionError("row 7 of the table")

    breaking = lambda: monkeypatch.setattr(Transcript, "add", fails)
    with pytest.raises(TooFewSites, match="does not answer; its log says why") as told:
        field.run("out", at_call(5, breaking))
    assert "ZeroDivision" not in str(told.value) and "row 7" not in str(told.value)


def test_a_flag_comes_when_an_answer_would(tmp_path, monkeypatch):
    """A rule on questions struck before anything was computed: the early reply was the site's."""
    field, computed = masked(tmp_path), []
    field.sites["south"].worker.office.given = STRICT.replace(questions_per_row=0.05)
    answer = MaskedSite.__call__

    def computing(self, question):
        computed.append((question.kind, self.table.name))
        return answer(self, question)

    monkeypatch.setattr(MaskedSite, "__call__", computing)
    with pytest.raises(ValueError, match="^1 members have set their flag"):
        field.run()
    assert {name for _, name in computed[-3:]} == set(NAMES)
