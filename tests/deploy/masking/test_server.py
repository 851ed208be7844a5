"""A hostile server against sites that follow: what it may add or leave out, and what it hears."""

import json

import pytest

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.site.policy import Policy
from tests.deploy.field import LOOSE, Field

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
