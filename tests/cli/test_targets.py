"""`--target a b`: several columns of numbers are predicted by one model."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso

from tests.cli import world
from tests.cli.world import proxfl

FEATURES, TARGETS = list("abcde"), ["u", "v", "w"]


def table():
    """Three targets that are one but for noise."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(90, 5))
    Y = A @ np.outer(rng.normal(size=5), [1.0, 2.0, -1.0]) + 0.3 * rng.normal(size=(90, 3))
    return pd.DataFrame(np.hstack([A, Y]), columns=[*FEATURES, *TARGETS])


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    home = tmp_path_factory.mktemp("several")
    world.write(home / "sites", table(), 3)
    return home / "sites"


@pytest.fixture(scope="module")
def trained(sites):
    """With l1, which couples no targets."""
    folder = sites.parent / "out"
    told = ["--target", *TARGETS, "--loss", "squared", "--l1", "0.1", "--tol", "1e-9"]
    outcome = proxfl("train", sites, *told, "--out", folder, "--json")
    assert outcome.code == 0, outcome.err
    return folder, json.loads(outcome.out)


def test_each_target_has_the_lasso_that_it_has_alone(trained):
    _, found = trained
    for name in TARGETS:
        own = Lasso(0.1, tol=1e-12).fit(table()[FEATURES], table()[name])
        alone = [found["coef"][name][feature] for feature in FEATURES]
        np.testing.assert_allclose(alone, own.coef_, atol=1e-6)
        assert found["intercept"][name] == pytest.approx(own.intercept_, abs=1e-6)


def test_each_target_is_predicted_judged_and_reported(trained, sites):
    folder, found = trained
    file = sites / "site0.csv"
    outcome = proxfl("predict", folder, file)
    guess = pd.DataFrame([line.split(",") for line in outcome.out.splitlines()])
    assert guess.iloc[0].tolist() == [f"prediction_{name}" for name in TARGETS]
    rows = pd.read_csv(file)
    coef = np.array([[found["coef"][n][f] for f in FEATURES] for n in TARGETS])
    expected = rows[FEATURES].to_numpy() @ coef.T + [found["intercept"][n] for n in TARGETS]
    np.testing.assert_allclose(guess.iloc[1:].astype(float), expected, rtol=1e-9)
    squares = np.mean((rows[TARGETS].to_numpy() - expected) ** 2)
    assert f"rmse {np.sqrt(squares):.4g}" in outcome.err
    page = (folder / "report.html").read_text()
    assert "v: mean" in page and "The target is u, v and w." in page


def test_the_rank_is_said_in_terminal_and_report(sites, tmp_path):
    told = ["--target", *TARGETS, "--loss", "squared", "--nuclear", "0.3"]
    outcome = proxfl("train", sites, *told, "--out", tmp_path / "out")
    sentence = "The matrix of coefficients has rank 1 of 3."
    assert sentence in outcome.out and sentence in (tmp_path / "out/report.html").read_text()
    held = json.loads((tmp_path / "out/model.json").read_text())
    assert np.linalg.matrix_rank(np.array(held["coef"]), tol=1e-8) == 1


BAD = {
    "classes": ("SITES --target u v --loss logistic", "'logistic' predicts one column"),
    "files last": ("--loss squared --target u v SITES", "put files before it"),
    "offset": ("SITES --target u v --loss squared --offset w", "'offset' needs one score per row"),
    "twice": ("SITES --target u u --loss squared", "a text, or several different ones"),
    "feature": ("SITES --target u v --features a v --loss squared", "names the target 'v'"),
    "no such column": ("SITES --target u x --loss squared", "there is no column 'x'"),
    "below 0": ("SITES --target u v --loss poisson", "column 'u' is below 0 in data row"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_go_with_several_targets_is_refused(sites, monkeypatch, name):
    told, words = BAD[name]
    monkeypatch.chdir(sites.parent)
    outcome = proxfl("train", *(str(sites) if w == "SITES" else w for w in told.split()))
    assert outcome.code == 2 and words in outcome.err and outcome.err.count("\n") == 1
    assert not (sites.parent / "out" / "train-u-and-v").exists()
