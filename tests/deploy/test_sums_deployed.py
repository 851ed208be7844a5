"""`federate evaluate` and `describe` over real SuperNodes, as typed, with masks and without.

Minutes long, so it runs under `make soak`.
"""

import json
from collections import Counter

import pytest
import tomli_w

from proxfl.deploy.masking.members import Members
from proxfl.deploy.site.office import Office
from proxfl.storage.files import write_text
from proxfl.tables import Schema
from proxfl.tables.describe import describe
from proxfl.train.applied import Applied
from proxfl.train.evaluate import evaluate
from proxfl.train.folder import read_model, write
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.processes import Deployment, commands
from tests.outcomes import soak

COLUMNS = {"a": {"kind": "number"}, "b": {"kind": "number"}, "y": {"kind": "boolean"}}
ALL = ("train", "evaluate", "describe")
ASKS = tomli_w.dumps(LOOSE.replace(automatic=ALL).to_dict())


def meet(there):
    """People at the sites have set their policies and compared the members' words."""
    offices = {name: Office(there.site(name)) for name in NAMES}
    key = lambda office: office.signer.public_key().public_bytes_raw()
    members = Members.of({name: key(office) for name, office in offices.items()})
    for name, office in offices.items():
        write_text(there.site(name) / "policy.toml", ASKS)
        office.confirmed.confirm(members, name, [other for other in NAMES if other != name])


def asked(folder, schema, *words):
    """What a command found under masks and in the clear, over a deployment of the field's files."""
    field, found = Field(folder / "twin", l1=0.02), {}
    write(folder / "model", field.trained(), "proxfl train")
    schema.write_text(tomli_w.dumps(COLUMNS))
    with commands(folder) as start:
        there = Deployment(folder, start, field.files, target="y", loss="logistic")
        server = there.serve()
        for name in NAMES:
            there.join(name)
            there.let_in(name)
            server.wait_for(f"Site {name} is let in.")
        meet(there)
        for masked, more in [(True, []), (False, ["--unmasked"])]:
            command = start(words[0], there.home.folder, f"s{len(more)}", *words[1:], *more)
            assert command.ended(600) == 0, command.said
            (told,) = (there.home.folder / f"results-s{len(more)}").glob("*tion.json")
            found[masked] = json.loads(told.read_text())
    return field, found


def scores(tmp_path):
    words = ("evaluate", "--model", tmp_path / "model", "--draws", "20")
    field, found = asked(tmp_path, tmp_path / "schema.toml", *words)
    model = Applied.of(*read_model(tmp_path / "model"))
    wanted = evaluate(model, field.files, draws=0).overall.scores
    for masked, told in found.items():
        for score, value in wanted.items():
            assert told["overall"][score] == pytest.approx(value, rel=1e-10, abs=1e-10)
        assert set(told["sites"]) == (set() if masked else set(NAMES))
    return Counter({"evaluations as over the files": len(found)})


@pytest.mark.soak
def test_scores_are_those_of_the_files(tmp_path):
    soak("scores_deployed", range(1), 1, lambda seeds: scores(tmp_path))


def table_one(tmp_path):
    schema = tmp_path / "schema.toml"
    field, found = asked(tmp_path, schema, "describe", "--schema", schema, "--smallest-cell", "1")
    here = describe(field.files, Schema.from_dict(COLUMNS), 1)
    for masked, told in found.items():
        for name, column in told["columns"].items():
            wanted = here[name].to_dict()["overall"]
            assert column["overall"]["counts"] == wanted["counts"]
            if "numbers" in wanted:
                near = pytest.approx(wanted["numbers"], rel=1e-12, abs=1e-12)
                assert column["overall"]["numbers"] == near
            assert set(column["sites"]) == (set() if masked else set(NAMES))
    return Counter({"descriptions as over the files": len(found)})


@pytest.mark.soak
def test_table_one_is_that_of_the_files(tmp_path):
    soak("table_one_deployed", range(1), 1, lambda seeds: table_one(tmp_path))
