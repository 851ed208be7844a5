"""`proxfl evaluate` tells the scores of every loss, per site and overall; predict says them too."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from tests.cli.fits import CASES
from tests.cli.test_train import read_table
from tests.cli.world import pictures, proxfl

WHERE = {name: CASES[name][0] for name in CASES}


def told(data, fitted, name, *more):
    outcome = proxfl("evaluate", fitted(name)[1], data / WHERE[name], "--json", *more)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def pooled(data, fitted, name):
    """The rows of all sites, and what the model says of them, by its arrays."""
    model = json.loads((fitted(name)[1] / "model.json").read_text())
    table = pd.concat([read_table(path) for path in sorted((data / WHERE[name]).iterdir())])
    A = table[model["features"]].to_numpy()
    return table[model["target"]].to_numpy(), A @ np.array(model["coef"]) + model["intercept"]


def test_two_classes(data, fitted):
    found = told(data, fitted, "l1", "--draws", 20)
    y, z = pooled(data, fitted, "l1")
    p, truth = 1 / (1 + np.exp(-z)), y == "yes"
    assert found["overall"]["rows"] == len(y) == sum(s["rows"] for s in found["sites"].values())
    assert found["overall"]["log_loss"] == pytest.approx(metrics.log_loss(truth, p), rel=1e-9)
    assert found["overall"]["deviance"] == pytest.approx(2 * found["overall"]["log_loss"])
    assert found["overall"]["brier"] == pytest.approx(metrics.brier_score_loss(truth, p))
    assert abs(found["overall"]["auc"] - metrics.roc_auc_score(truth, z)) <= (
        found["overall"]["auc_resolution"] + 1e-12
    )
    # Sorted by label, so that some sites have one class: what cannot be known is null.
    assert found["sites"]["site0"]["auc"] is None and found["sites"]["site0"]["brier"] > 0
    for name, (low, high) in found["overall"]["intervals"].items():
        if low is not None:
            assert low <= high and name in found["overall"]
    again = told(data, fitted, "l1", "--draws", 20)
    other = told(data, fitted, "l1", "--draws", 20, "--seed", 1)
    assert again == found and other["overall"]["intervals"] != found["overall"]["intervals"]
    assert other["overall"]["auc"] == found["overall"]["auc"]


def test_numbers_counts_and_classes(data, fitted):
    y, z = pooled(data, fitted, "elastic net")
    squared = told(data, fitted, "elastic net", "--draws", 0)["overall"]
    assert squared["r2"] == pytest.approx(metrics.r2_score(y, z), rel=1e-9)
    assert squared["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, z))
    assert squared["deviance"] == pytest.approx(metrics.mean_squared_error(y, z))
    assert squared["intervals"] == {}
    y, z = pooled(data, fitted, "poisson")
    kept = np.isfinite(z)
    counts = told(data, fitted, "poisson", "--draws", 0)["overall"]
    expected = metrics.mean_poisson_deviance(y[kept], np.exp(z[kept]))
    assert counts["deviance"] == pytest.approx(expected, rel=1e-9) and counts["rows"] == kept.sum()
    y, z = pooled(data, fitted, "softmax")
    classes = told(data, fitted, "softmax", "--draws", 0)["overall"]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    assert classes["log_loss"] == pytest.approx(metrics.log_loss(y, p), rel=1e-9)
    area = metrics.roc_auc_score(y, p, multi_class="ovr")
    assert abs(classes["auc"] - area) <= classes["auc_resolution"] + 1e-12


def test_a_huber_model_is_judged_with_its_own_delta(data, fitted):
    y, z = pooled(data, fitted, "huber")
    r = np.abs(y - z)
    loss = np.where(r <= 20, r**2 / 2, 20 * (r - 10)).mean()
    assert told(data, fitted, "huber", "--draws", 0)["overall"]["loss"] == pytest.approx(loss)


def test_a_folder_has_tables_pictures_and_a_page(data, fitted, tmp_path):
    folder = tmp_path / "out"
    files = data / WHERE["l1"]
    told = [fitted("l1")[1], files, "--out", folder, "--draws", 5]
    outcome = proxfl("evaluate", *told, drawn=True)
    assert outcome.code == 0 and "auc" in outcome.out and f"Results: {folder}" in outcome.out
    names = {"scores", "roc", "precision_recall", "calibration", "confusion"}
    assert {path.stem for path in folder.glob("*.csv")} == names
    held = json.loads((folder / "evaluation.json").read_text())
    scores = pd.read_csv(folder / "scores.csv").set_index(["site", "score"])["value"]
    assert scores["overall", "auc"] == pytest.approx(held["overall"]["auc"])
    assert {path.suffix for path in (folder / "figures").iterdir()} == {".png", ".svg"}
    assert len(pictures(folder / "figures")) == len(list((folder / "figures").iterdir()))
    page = (folder / "report.html").read_text()
    assert "calibration slope" in page and "with replacement" in page
    again = proxfl("evaluate", fitted("l1")[1], files, "--out", folder)
    assert again.code == 2 and "not empty" in again.err


def test_models_of_numbers_are_drawn_in_groups_too(data, fitted, tmp_path):
    folder = tmp_path / "out"
    files = data / WHERE["elastic net"]
    outcome = proxfl("evaluate", fitted("elastic net")[1], files, "--out", folder, "--draws", 0)
    assert outcome.code == 0, outcome.err
    y, z = pooled(data, fitted, "elastic net")
    calibration, residuals = (
        pd.read_csv(folder / f"{n}.csv") for n in ("calibration", "residuals")
    )
    whole = calibration[calibration["site"] == "overall"]
    assert whole["rows"].sum() == len(y) and whole["rows"].min() >= 20
    assert whole["rows"] @ whole["observed"] == pytest.approx(y.sum())
    assert whole["rows"] @ whole["predicted"] == pytest.approx(z.sum())
    whole = residuals[residuals["site"] == "overall"]
    assert whole["rows"] @ whole["rms_residual"] ** 2 == pytest.approx(np.sum((y - z) ** 2))
    assert whole["rows"] @ whole["mean_residual"] == pytest.approx((y - z).sum(), abs=1e-6)
    assert {path.stem for path in (folder / "figures").iterdir()} == {"calibration", "residuals"}
    assert "root of its mean square" in (folder / "report.html").read_text()


def test_classes_are_called_by_their_labels(data, fitted, tmp_path):
    files, folder = data / WHERE["softmax"], tmp_path / "out"
    told = proxfl("evaluate", fitted("softmax")[1], files, "--out", folder, "--draws", 0)
    assert told.code == 0 and "called positive" not in told.out
    model = json.loads((fitted("softmax")[1] / "model.json").read_text())
    labels = [str(label) for label in model["classes"]]
    table = pd.read_csv(folder / "confusion.csv", dtype={"true": str})
    assert list(table)[1:] == ["true", *(f"predicted {label}" for label in labels)]
    y, _ = pooled(data, fitted, "softmax")
    whole = table[table["site"] == "overall"].set_index("true")
    seen = pd.Series(y).astype(str).value_counts()
    assert whole.iloc[:, 1:].sum(axis=1).to_dict() == seen.to_dict()
    shown = proxfl("evaluate", fitted("l1")[1], data / WHERE["l1"], "--draws", 0).out
    assert "called positive, which is benign = yes," in " ".join(shown.split())


def test_predictions_carry_identifiers_and_say_how_good_they_are(data, fitted):
    outcome = proxfl("predict", fitted("schema")[1], data / "mixed" / "site0.csv")
    lines = [line.split(",") for line in outcome.out.splitlines()]
    raw = pd.read_csv(data / "mixed" / "site0.csv")
    assert lines[0] == ["patient", "prediction"]
    assert [line[0] for line in lines[1:]] == raw["patient"].tolist()
    guess = np.array([float(line[1]) for line in lines[1:]])
    r2 = metrics.r2_score(raw["progression"], guess)
    assert "The target is there: rows" in outcome.err and f"r2 {r2:.4g}" in outcome.err


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (["--threshold", "1"], "--threshold must be between 0 and 1"),
        (["--draws", "-1"], "--draws from 0 to 10000"),
        (["--schema", "nowhere.toml"], "the schema cannot be read"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(data, fitted, told, words):
    outcome = proxfl("evaluate", fitted("l1")[1], data / "cancer", *told)
    assert outcome.code == 2 and words in outcome.err
    lacking = proxfl("evaluate", fitted("l1")[1], data / "diabetes")
    assert lacking.code == 2 and "there is no column 'benign'" in lacking.err
