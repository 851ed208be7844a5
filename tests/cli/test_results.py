"""`proxfl predict`, `inspect` and `report`: from the files of a result alone."""

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.cli.world import proxfl


def predicted(*args):
    outcome = proxfl("predict", *args)
    assert outcome.code == 0, outcome.err
    return pd.read_csv(io.StringIO(outcome.out))


def scores(folder, table):
    model = json.loads((folder / "model.json").read_text())
    return table[model["features"]].to_numpy() @ np.array(model["coef"]) + model["intercept"]


def test_a_classifier_tells_classes_and_their_probabilities(data, fitted):
    folder, file = fitted("l1")[1], data / "cancer" / "site1.csv"
    found, table = predicted(folder, file, "--proba"), pd.read_csv(file)
    assert list(found) == ["prediction", "probability_no", "probability_yes"]
    z = scores(folder, table)
    np.testing.assert_allclose(found["probability_yes"], 1 / (1 + np.exp(-z)), rtol=1e-9)
    assert (found["prediction"] == np.where(z > 0, "yes", "no")).all()
    assert (found["prediction"] == table["benign"]).mean() > 0.85


def test_softmax_predicts_the_likeliest_class(data, fitted):
    file = data / "wine" / "site0.parquet"
    found = predicted(fitted("softmax")[1] / "model.json", file, "--proba")
    each = found.drop(columns="prediction").to_numpy()
    np.testing.assert_allclose(each.sum(axis=1), 1, rtol=1e-12)
    assert (found["prediction"] == each.argmax(axis=1)).all()
    assert (found["prediction"] == pd.read_parquet(file)["cultivar"]).mean() > 0.85


def test_counts_are_predicted_by_their_mean(data, fitted):
    folder, file = fitted("poisson")[1], data / "diabetes" / "site2.csv"
    z = scores(folder, pd.read_csv(file))
    np.testing.assert_allclose(predicted(folder, file)["prediction"], np.exp(z), rtol=1e-12)


def test_columns_are_found_by_name_and_holes_filled_as_in_training(data, fitted, tmp_path):
    folder, table = fitted("groups")[1], pd.read_csv(data / "holes" / "site0.csv")
    assert table.isna().any(axis=None)
    table.iloc[:, ::-1].assign(extra="text").to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "new" / "predictions.csv"
    outcome = proxfl("predict", folder, tmp_path / "rows.csv", "--out", out)
    assert (outcome.code, outcome.out) == (0, "")
    bmi = pd.concat([pd.read_csv(file) for file in (data / "holes").iterdir()])["bmi"].mean()
    wanted = scores(folder, table.fillna({"bmi": bmi}))
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], wanted, rtol=1e-12)


def test_features_of_a_libsvm_file_are_known_by_their_number(data, fitted):
    dense = pd.read_csv(data / "diabetes" / "site1.csv")
    dense = dense.set_axis([*(f"x{j + 1}" for j in range(10)), "y"], axis=1)
    folder = fitted("given steps")[1]
    found = predicted(folder, data / "sparse" / "site1.svm")["prediction"]
    np.testing.assert_allclose(found, scores(folder, dense), rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "args", "words"),
    [
        ("softmax", ("cancer/site0.csv",), "there is no column 'alcohol', 'malic_acid'"),
        ("poisson", ("diabetes/site0.csv", "--proba"), "has no probabilities"),
        ("poisson", ("holes/site0.csv",), "column 'bmi' has no value in data row 4"),
        ("l1", ("none.csv",), "none.csv: there is no such file"),
        (None, ("cancer", "cancer/site0.csv"), "model.json: there is no such file"),
        (None, ("factors.csv", "cancer/site0.csv"), "this cannot be read as JSON"),
    ],
)
def test_what_cannot_be_predicted_is_refused(data, fitted, monkeypatch, model, args, words):
    monkeypatch.chdir(data)
    outcome = proxfl("predict", *([fitted(model)[1]] if model else []), *args)
    assert outcome.code == 2 and outcome.out == "" and words in outcome.err


def test_another_file_of_the_folder_is_no_model(fitted):
    outcome = proxfl("inspect", fitted("l1")[1] / "manifest.json")
    assert outcome.code == 2 and "this is no 'proxfl model 1'" in outcome.err


def test_a_model_tells_what_it_is(fitted):
    outcome = proxfl("inspect", fitted("l1")[1])
    assert outcome.code == 0
    for words in ("Target: benign", "Classes: no, yes", "0.02 sum_j |coef_j|", "Converged after"):
        assert words in outcome.out
    assert "Duality gap" in outcome.out and "proxfl 0." in outcome.out


def test_a_report_needs_the_folder_only_and_is_the_same_again(data, fitted, tmp_path):
    shutil.copytree(fitted("softmax")[1], tmp_path / "copy")
    written = (tmp_path / "copy" / "report.html").read_bytes()
    (tmp_path / "copy" / "report.html").unlink()
    outcome = proxfl("report", tmp_path / "copy")
    assert outcome.code == 0 and (tmp_path / "copy" / "report.html").read_bytes() == written
    assert proxfl("report", data).code == 2


def test_a_report_holds_no_row_of_data(data, fitted):
    text = (fitted("l1")[1] / "report.html").read_text()
    row = pd.read_csv(data / "cancer" / "site0.csv", dtype=str).iloc[0]
    assert not any(value in text for value in row.drop("benign") if len(value) > 4)
