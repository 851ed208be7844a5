"""`proxfl schema` and `--schema`: from raw tables to a model, and to rows to be predicted."""

import json

import numpy as np
import pandas as pd
import pytest

from proxfl.tables import Schema
from tests.cli import world
from tests.cli.fits import CASES
from tests.cli.world import proxfl

TOLD = CASES["schema"][1].replace("--no-accelerate", "").split()


def test_a_drafted_schema_trains_as_it_is(data, tmp_path):
    path = tmp_path / "schema.toml"
    drafted = proxfl("schema", data / "mixed", "--out", path)
    assert drafted.code == 0 and f"Schema: {path}" in drafted.out
    assert "every row has a text of its own" in drafted.out
    shown = proxfl("schema", data / "mixed")
    assert shown.out == path.read_text()
    kinds = {name: column.name for name, column in Schema.read(path).columns.items()}
    assert kinds["patient"] == "identifier" and kinds["ward"] == "category"
    told = ["train", data / "mixed", "--target", "progression", "--loss", "squared", "--l1", "1"]
    outcome = proxfl(*told, "--schema", path, "--out", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.err
    assert {"ward=east", "ward=south", "sex=male"} <= json.loads(outcome.out)["coef"].keys()
    again = proxfl("schema", data / "mixed", "--out", path)
    assert again.code == 2 and "there is such a file already" in again.err


def test_the_model_is_that_of_features_made_by_hand(data, fitted, tmp_path):
    features = ["sex=male", "ward=east", "ward=south", "ward=west", "bmi", "bp", "bp=missing"]
    whole = world.made(world.mixed())[features]
    whole = whole.fillna(whole.mean()).assign(progression=world.mixed()["progression"])
    world.write(tmp_path / "hand", whole, 3)
    groups = [f"{name},{name.split('=')[0]}\n" for name in features]
    (tmp_path / "groups.csv").write_text("feature,group\n" + "".join(groups))
    outcome = proxfl(
        "train", tmp_path / "hand", "--target", "progression", "--loss", "squared",
        "--group", tmp_path / "groups.csv", "--group-weight", "0.1", "--json",
        "--out", tmp_path / "out", "--no-accelerate",
    )  # fmt: skip
    by_hand, told = json.loads(outcome.out), json.loads(fitted("schema")[0].out)
    assert told["objective"] == pytest.approx(by_hand["objective"], rel=1e-12)
    for name in features:
        assert told["coef"][name] == pytest.approx(by_hand["coef"][name], rel=1e-5, abs=1e-5)


def test_a_factor_is_one_row_on_the_terminal_and_in_the_report(fitted):
    folder = fitted("schema")[1]
    shown = proxfl("inspect", folder)
    page = (folder / "report.html").read_text()
    assert "ward=" not in shown.out and "ward" in shown.out and "east: " in shown.out
    assert "1 for the level named; north is 0 in all, as are unknown levels" in page


def test_prediction_needs_no_schema_and_takes_unknown_levels_as_it_says(fitted, tmp_path):
    folder = fitted("schema")[1]
    model = json.loads((folder / "model.json").read_text())
    rows = world.mixed().iloc[[0, 3, 300]].drop(columns="progression")
    rows["ward"] = ["moon", "south", "west"]
    rows.to_csv(tmp_path / "new.csv", index=False)
    outcome = proxfl("predict", folder, tmp_path / "new.csv")
    assert outcome.code == 0, outcome.err
    made = world.made(rows)[model["features"]].to_numpy()
    made = np.where(np.isnan(made), np.array(model["fill"]), made)
    expected = made @ model["coef"] + model["intercept"]
    found = pd.DataFrame([line.split(",") for line in outcome.out.splitlines()[1:]])
    np.testing.assert_allclose(found.iloc[:, -1].astype(float), expected, rtol=1e-12)
    rows.assign(sex="unsaid").to_csv(tmp_path / "new.csv", index=False)
    refused = proxfl("predict", folder, tmp_path / "new.csv")
    assert refused.code == 2 and "column 'sex' holds a level" in refused.err
    assert "unsaid" not in refused.err


def test_classes_of_the_target_come_from_the_schema(data, tmp_path):
    """The positive class is the one that is not the reference, whatever the order of letters."""
    schema = world.SCHEMA.replace('levels = ["female", "male"]', 'levels = ["male", "female"]')
    (tmp_path / "schema.toml").write_text(schema)
    told = ["train", data / "mixed", "--loss", "logistic", "--l1", "0.05", "--target", "sex"]
    outcome = proxfl(*told, "--schema", tmp_path / "schema.toml", "--out", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "A positive score speaks for sex = female." in outcome.out
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert model["classes"] == ["male", "female"]


BAD = {
    "text columns": (
        "mixed --target progression --loss squared",
        "columns 'patient', 'ward', 'sex' are not numeric, first in data row 1; say what",
    ),
    "no schema": (
        "mixed --schema no.toml --target bmi --loss squared",
        "no.toml: the schema cannot",
    ),
    "bad schema": ("mixed --schema bad.toml --target bmi --loss squared", "no known kind"),
    "wrong columns": (
        "odd --schema schema.toml --target progression --loss squared",
        "column 'ward' holds a level that the schema does not have, first in data row 2; column "
        "'bmi' is not a number, first in data row 3",
    ),
    "no such column": (
        "mixed --schema schema.toml --target progression --loss squared --exclude bnp",
        "the schema has no column 'bnp'; did you mean 'bp'?",
    ),
    "an identifier": (
        "mixed --schema schema.toml --target progression --loss squared --features bmi patient",
        "the schema leaves column 'patient' out as an identifier; say another kind",
    ),
    "classes": (
        "mixed --schema schema.toml --target ward --loss logistic",
        "4 different values over all sites and logistic takes 2",
    ),
    "two of a name": ("twice.csv --target y --loss squared", "more than one column is named 'a'"),
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory, data):
    home = tmp_path_factory.mktemp("wrong")
    world.write(home / "mixed", world.mixed().iloc[:40], 2)
    odd = world.mixed().iloc[:40].astype(object)
    odd.loc[1, "ward"], odd.loc[2, "bmi"] = "moon", "large"
    world.write(home / "odd", odd, 2)
    (home / "schema.toml").write_text(world.SCHEMA.replace('unknown = "reference"', ""))
    (home / "bad.toml").write_text('[age]\nkind = "figure"\n')
    (home / "twice.csv").write_text("a,a,y\n1,2,3\n")
    return home


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused_in_a_sentence_and_nothing_is_written(
    wrong, monkeypatch, name
):
    told, words = BAD[name]
    monkeypatch.chdir(wrong)
    before = sorted(wrong.rglob("*"))
    outcome = proxfl("train", *told.split(), "--out", "results")
    assert outcome.code == 2 and outcome.out == "" and words in outcome.err
    assert outcome.err.count("\n") == 1 and sorted(wrong.rglob("*")) == before
