"""`proxfl path` over real sites is `proxfl path` over their files."""

import json

import numpy as np
import pandas as pd
import pytest

from proxfl.report import page
from proxfl.train.choice import Choice
from proxfl.train.folder import read_model
from proxfl.train.folds import path_with_folds
from proxfl.train.train import begin, read_tables, run
from tests.deploy.field import LOOSE, Field

SHORT = Choice(points=3, ratio=0.1, folds=3)
ANY = LOOSE.replace(automatic=("train", "path"))
PROBLEM = {"target": "y", "loss": "logistic"}


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr(page, "inline", lambda figure: "data:,")


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
