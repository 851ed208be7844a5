"""`proxfl predict`, `inspect` and `report`: from the files of a result alone."""

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest

from proxfl.report import page
from tests.cli import world
from tests.cli.world import proxfl


@pytest.fixture(scope="module", autouse=True)
def no_drawing():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "inline", lambda figure: "data:,")
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Site files and a result for each kind of model; text labels, a hole to fill."""
    home = tmp_path_factory.mktemp("home")
    cancer = world.cancer()
    cancer["benign"] = np.where(cancer["benign"] == 1, "yes", "no")
    world.write(home / "cancer", cancer, 2)
    diabetes = world.diabetes()
    diabetes.loc[7, "bmi"] = np.nan
    world.write(home / "diabetes", diabetes, 2)
    world.write(home / "wine", world.wine(), 2)
    for name, told in {
        "cancer": "--target benign --loss logistic --l1 0.1",
        "diabetes": "--target progression --loss poisson --l1 1 --missing mean",
        "wine": "--target cultivar --loss softmax --l1 0.1",
    }.items():
        outcome = proxfl(
            *("train", home / name, *told.split(), "--standardise", "--no-accelerate"),
            *("--tol", "1e-3", "--out", home / f"{name}-result"),
        )
        assert outcome.code == 0, outcome.err
    return home


def predicted(*args):
    outcome = proxfl("predict", *args)
    assert outcome.code == 0, outcome.err
    return pd.read_csv(io.StringIO(outcome.out))


def test_a_classifier_tells_classes_and_their_probabilities(home):
    table = pd.read_csv(home / "cancer" / "site1.csv")
    found = predicted(home / "cancer-result", home / "cancer" / "site1.csv", "--proba")
    assert list(found) == ["prediction", "probability_no", "probability_yes"]
    model = json.loads((home / "cancer-result" / "model.json").read_text())
    z = table[model["features"]] @ np.array(model["coef"]) + model["intercept"]
    np.testing.assert_allclose(found["probability_yes"], 1 / (1 + np.exp(-z)), rtol=1e-9)
    assert (found["prediction"] == np.where(z > 0, "yes", "no")).all()
    assert (found["prediction"] == table["benign"]).mean() > 0.85


def test_softmax_predicts_the_likeliest_class(home):
    table = pd.read_csv(home / "wine" / "site0.csv")
    found = predicted(home / "wine-result" / "model.json", home / "wine" / "site0.csv", "--proba")
    each = found.drop(columns="prediction").to_numpy()
    np.testing.assert_allclose(each.sum(axis=1), 1, rtol=1e-12)
    assert (found["prediction"] == each.argmax(axis=1)).all()
    assert (found["prediction"] == table["cultivar"]).mean() > 0.85


def test_columns_are_found_by_name_and_holes_filled_as_in_training(home, tmp_path):
    table = pd.read_csv(home / "diabetes" / "site0.csv")
    table.iloc[:, ::-1].assign(extra="text").to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "new" / "predictions.csv"
    outcome = proxfl("predict", home / "diabetes-result", tmp_path / "rows.csv", "--out", out)
    assert (outcome.code, outcome.out) == (0, "")
    found = pd.read_csv(out)["prediction"]
    model = json.loads((home / "diabetes-result" / "model.json").read_text())
    filled = table[model["features"]].fillna(
        dict(zip(model["features"], model["fill"], strict=True))
    )
    z = filled @ np.array(model["coef"]) + model["intercept"]
    np.testing.assert_allclose(found, np.exp(z), rtol=1e-12)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("wine-result", "cancer/site0.csv"), "there is no column 'alcohol', 'malic_acid'"),
        (("diabetes-result", "diabetes/site0.csv", "--proba"), "has no probabilities"),
        (("cancer-result", "none.csv"), "none.csv: there is no such file"),
        (("cancer", "cancer/site0.csv"), "model.json: there is no such file"),
        (("cancer-result/manifest.json", "cancer/site0.csv"), "this is no 'proxfl model 1'"),
        (("cancer/site0.csv", "cancer/site0.csv"), "this cannot be read as JSON"),
    ],
)
def test_what_cannot_be_predicted_is_refused(home, monkeypatch, args, words):
    monkeypatch.chdir(home)
    outcome = proxfl("predict", *args)
    assert outcome.code == 2 and outcome.out == "" and words in outcome.err


def test_a_model_tells_what_it_is(home):
    outcome = proxfl("inspect", home / "cancer-result")
    assert outcome.code == 0
    for words in ("Target: benign", "Classes: no, yes", "0.1 sum_j |coef_j|", "Converged after"):
        assert words in outcome.out
    assert "Duality gap" in outcome.out and "proxfl 0." in outcome.out


def test_a_report_needs_the_folder_only_and_is_the_same_again(home, tmp_path):
    shutil.copytree(home / "wine-result", tmp_path / "copy")
    written = (tmp_path / "copy" / "report.html").read_bytes()
    (tmp_path / "copy" / "report.html").unlink()
    outcome = proxfl("report", tmp_path / "copy")
    assert outcome.code == 0 and (tmp_path / "copy" / "report.html").read_bytes() == written
    assert proxfl("report", home).code == 2


def test_a_report_holds_no_row_of_data(home):
    text = (home / "cancer-result" / "report.html").read_text()
    row = pd.read_csv(home / "cancer" / "site0.csv", dtype=str).iloc[0]
    assert not any(value in text for value in row.drop("benign") if len(value) > 4)
