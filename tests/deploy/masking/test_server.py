"""A hostile server against sites that follow: what it may add or leave out, and what it hears."""

import json

import pytest

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.reception import Reception
from proxfl.train.spec import Spec
from tests.deploy.field import LOOSE, NAMES, Field, write_data

STRICT = LOOSE.replace(unmasked=False)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Nothing here is about power loss."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


def masked(folder, **options):
    field = Field(folder, masked=True, **{"policy": STRICT, "l1": 0.02} | options)
    field.confirm()
    return field


def met(field, change):
    """What a site says to a charter that the server has changed."""
    run = field.life()
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


FOUR = ("east", *NAMES)


class Four:
    """Four sites, and a server that proposes whatever it likes to whomever it likes."""

    def __init__(self, folder):
        self.folder, self.files = folder, write_data(folder / "data")
        self.files = dict(zip(FOUR, [self.files[0], *self.files], strict=True))
        self.membership = Membership("field", FOUR)
        self.open()

    def open(self):
        """Sites as new processes."""
        self.sites = {name: self.site(name) for name in FOUR}

    def site(self, name):
        office = Office(self.folder / name, STRICT.replace(sites=3))
        return Reception(self.membership, name, self.files[name], office)

    def study(self, *sites, **options):
        spec = Spec(**{"target": "y", "loss": "logistic", "l1": 0.02} | options)
        return make_study("-".join(sites), "field", sites, spec)

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


def test_studies_of_the_same_sites_or_of_other_columns_follow_one_another(tmp_path):
    field = Four(tmp_path)
    numbers = dict(loss="squared", weights="samples")
    first = field.study(*NAMES, target="a", features=("b",), **numbers)
    assert set(field.said(first).values()) == {"takes part"}
    again = field.study(*NAMES, target="b", features=("a",), **numbers)
    other = field.study(*FOUR, target="c", features=("d",), **numbers)
    for study in (again, other):
        assert set(field.said(study).values()) == {"takes part"}
