"""Scores of a model under masks: those over files, of all sites together, and nothing of one."""

import json

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking import evaluation as masked
from proxfl.deploy.protocol.study import make_evaluation
from proxfl.deploy.server import evaluation
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.program import result_of
from proxfl.deploy.site.draws import UP_TO, secret_draws
from proxfl.train.applied import Applied
from proxfl.train.evaluate import How, evaluate
from proxfl.train.folder import read_model, write
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.masking.test_federate import Crash, at_step, crash
from tests.deploy.test_studies import over_files, same

STRICT = LOOSE.replace(unmasked=False, automatic=("train", "evaluate"))


def asked(folder, how, **options):
    """A field whose study evaluates a model of its files, and the model."""
    survival = options.get("loss") == "cox"
    field = Field(folder, 3 if options.get("loss") == "softmax" else 2, STRICT, masked=True)
    if survival:
        for file in field.files:
            table = pd.read_csv(file)
            table.assign(t=np.exp(table["a"]) + 1.0).drop(columns="b").to_csv(file, index=False)
    named = {"time": "t", "event": "y"} if survival else {"target": "y"}
    field.ask(**{"loss": "logistic"} | named | options)
    write(folder / "model", field.trained(), "proxfl train")
    text = (folder / "model" / "model.json").read_text()
    field.study = make_evaluation("how-good", "field", NAMES, text, how)
    field.confirm()
    return field, read_model(folder / "model")


def found(field, out="scores", spoil=lambda federation: None):
    run = field.life(out)
    spoil(run.federation)
    field.propose()
    return result_of(run)


@pytest.mark.parametrize("loss", ["softmax", "squared", "cox"])
@pytest.mark.filterwarnings("ignore:Not converged")
def test_masked_scores_are_those_over_files_to_1e_10(loss, tmp_path, monkeypatch):
    monkeypatch.setattr(masked, "MOST", 3 * 2**15)  # so that there are several parts
    how = How(0.4, 3, 7)
    field, model = asked(tmp_path, how, loss=loss, rounds=1, tol=1.0)
    there, here = found(field), over_files(field, model, how)
    same(there.overall, here.overall, 1e-10, 1e-10)
    files = evaluate(Applied.of(*model), field.files, draws=0).overall  # no draws, so no secrets
    pair = (list(judged.scores.values()) for judged in (there.overall, files))
    np.testing.assert_allclose(*pair, rtol=1e-10, atol=1e-10)
    assert (there.sites, there.number) == ({}, 3)
    evaluation.save(field.life("scores"), there)
    held = json.loads((tmp_path / "scores" / "evaluation.json").read_text())
    assert held["sites"] == {} and held["masked"]
    told = (tmp_path / "scores" / "report.html").read_text()
    assert "3 sites" in told and "Scores by site are not told" in told


def test_an_evaluation_without_draws_has_scores_and_no_intervals(tmp_path):
    field, _ = asked(tmp_path, How(draws=0), rounds=2, tol=1.0)
    there = found(field).overall
    assert there.scores and not there.intervals


def test_an_evaluation_killed_at_any_step_goes_on_to_the_same_bits(tmp_path):
    field, _ = asked(tmp_path, How(draws=2), rounds=2, tol=1.0)
    for number in (1, 2):
        with pytest.raises(Crash):
            found(field, spoil=at_step(number, crash))
    there = found(field, spoil=at_step(1, field.sites["south"].restart))
    same(found(field).overall, there.overall, 0.0)  # asked again, it is the sums on the disk


def test_only_a_person_lets_it_begin_and_what_goes_wrong_then_names_nobody(tmp_path):
    field, _ = asked(tmp_path, How(draws=0), rounds=2, tol=1.0)
    for site in field.sites.values():
        site.worker.office.given = STRICT.replace(automatic=("train",))
    with pytest.raises(TooFewSites, match="a person there decides about studies that evaluate"):
        found(field)
    for i in range(3):
        field.office(i).approve(field.study)
    field.sites["south"].worker.office.given = STRICT.replace(questions_per_row=0.0)
    with pytest.raises(ValueError, match="^1 members have set their flag") as told:
        found(field)
    assert not any(name in str(told.value) for name in NAMES)


def test_draws_are_poisson_s_and_nobody_else_s(tmp_path):
    field = Field(tmp_path)
    one, other = (secret_draws(field.office(i), "study") for i in (0, 1))
    rows = one(10**5, 0)
    np.testing.assert_array_equal(rows, one(10**5, 0))
    assert all(np.mean(rows == draw) < 0.5 for draw in (one(10**5, 1), other(10**5, 0)))
    chances = np.diff(UP_TO[:8], prepend=0.0)
    seen = np.bincount(rows.astype(int), minlength=8)[:8]
    assert np.abs(seen - 1e5 * chances).max() < 5 * np.sqrt(1e5 * chances.max())
