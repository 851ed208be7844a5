"""Offsets, exposure, row weights and intercepts of sites: models of statsmodels on pooled rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from proxfl.deploy.protocol.study import make_evaluation
from proxfl.deploy.site.policy import Policy
from proxfl.train import folder as results
from proxfl.train.applied import Applied
from proxfl.train.evaluate import How
from proxfl.train.spec import Spec
from proxfl.train.train import train
from tests.cli.world import proxfl
from tests.deploy import conftest, field  # noqa: F401  # Flower, past its warnings
from tests.sentences import said

FEATURES = list("abc")
EXACT = {"tol": 1e-12, "rounds": 3000}

# As many rows as here, long runs, and answers without masks.
POLICY = Policy(rows=30, questions_per_row=100.0, unmasked=True)


def frames():
    """Three sites of counts, costs and classes, with a level of their own each."""
    rng, made = np.random.default_rng(1), {}
    for i, name in enumerate(field.NAMES):
        A = rng.normal(size=(40 + 20 * i, 3)) + rng.normal(size=3)
        z = 0.4 * A @ [1.0, -1.0, 0.5] + 0.5 * i
        years, level = rng.uniform(0.5, 4, len(A)), rng.normal(size=len(A))
        made[name] = pd.DataFrame(A, columns=FEATURES).assign(
            count=rng.poisson(np.exp(z + 0.3 * level) * years),
            cost=np.exp(z) * rng.gamma(3.0, 1 / 3, len(A)),
            ill=(rng.random(len(A)) < 1 / (1 + np.exp(-z))).astype(int),
            years=years,
            level=0.3 * level,
            times=rng.integers(0, 4, len(A)),
        )
    return made


def write(folder, made=None):
    return field.write_frames(folder, made or frames())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [str(file) for file in write(tmp_path_factory.mktemp("rows") / "data")]


def pooled():
    parts = [frame.assign(site=name) for name, frame in frames().items()]
    return pd.concat(parts, ignore_index=True)


def fitted(target, family, sites=False, **about):
    """The model of statsmodels; with a level for each site if asked."""
    table = pooled()
    A = table[FEATURES].to_numpy()
    dummies = pd.get_dummies(table["site"]).to_numpy(float)
    A = np.hstack([A, dummies]) if sites else sm.add_constant(A, prepend=False)
    model = sm.GLM(table[target], A, family=family, **about)
    return model.fit(tol=1e-15, maxiter=200)


def intercept_of(folder, file):
    """What a site finds for itself, from the model and its own rows."""
    return Applied.of(*results.read_model(folder)).at_site(Path(file)).intercept


def trained(files, target, loss, **options):
    fit = train(Spec(sites=files, target=target, loss=loss, features=FEATURES, **EXACT, **options))
    assert fit.solution.converged
    return fit


FAMILIES = sm.families
LOG = FAMILIES.links.Log()
CASES = {
    "exposure": ("count", "poisson", FAMILIES.Poisson(), {"exposure": "years"}),
    "exposure and offset": (
        "count",
        "poisson",
        FAMILIES.Poisson(),
        {"exposure": "years", "offset": "level"},
    ),
    "offset of a logistic model": ("ill", "logistic", FAMILIES.Binomial(), {"offset": "level"}),
    "weights": ("count", "poisson", FAMILIES.Poisson(), {"row_weights": "times"}),
    "weights of squares": ("cost", "squared", FAMILIES.Gaussian(), {"row_weights": "times"}),
    "gamma": ("cost", "gamma", FAMILIES.Gamma(LOG), {}),
    "negative binomial": (
        "count",
        "negbin",
        FAMILIES.NegativeBinomial(LOG, alpha=0.7),
        {"negbin_dispersion": 0.7, "exposure": "years"},
    ),
}
KNOWN_AS = {"exposure": "exposure", "offset": "offset", "row_weights": "freq_weights"}


def arguments(options):
    table = pooled()
    return {known: table[options[key]] for key, known in KNOWN_AS.items() if key in options}


@pytest.mark.parametrize("name", CASES)
def test_a_federation_finds_the_model_of_the_pooled_rows(files, name):
    target, loss, family, options = CASES[name]
    known = fitted(target, family, **arguments(options)).params.to_numpy()
    model = trained(files, target, loss, **options).model
    np.testing.assert_allclose([*model.coef, float(model.intercept)], known, rtol=1e-8, atol=1e-9)


def test_a_weight_of_two_is_two_rows(files, tmp_path):
    """Also where features are standardised and sites are weighted by their rows."""
    repeated = {n: f.loc[f.index.repeat(f["times"])] for n, f in frames().items()}
    other = [str(file) for file in write(tmp_path / "repeated", repeated)]
    options = {"l1": 0.05, "standardise": True}
    one = trained(files, "count", "poisson", row_weights="times", **options)
    two = trained(other, "count", "poisson", **options)
    np.testing.assert_allclose(one.model.coef, two.model.coef, rtol=1e-9)
    assert one.solution.objective == pytest.approx(two.solution.objective, rel=1e-12)
    assert 0 <= one.duality_gap <= 1e-8


def test_a_gap_is_right_with_an_offset(files):
    options = {"exposure": "years", "offset": "level", "l1": 0.1}
    best = trained(files, "count", "poisson", **options)
    spec = best.spec.replace(rounds=2)
    with pytest.warns(UserWarning, match="Not converged"):
        early = train(spec)
    assert 0 <= best.duality_gap <= 1e-9
    assert early.duality_gap >= early.solution.objective - best.solution.objective > 1e-6


def test_predictions_use_the_columns_of_the_file(files, tmp_path):
    told = ["--target", "count", "--loss", "poisson", "--features", *FEATURES]
    told += ["--exposure", "years", "--offset", "level", "--out", tmp_path / "model"]
    assert proxfl("train", *files, *told).code == 0
    lines = proxfl("predict", tmp_path / "model", files[0]).out.splitlines()
    model, table = json.loads((tmp_path / "model/model.json").read_text()), frames()["north"]
    z = table[FEATURES].to_numpy() @ np.array(model["coef"]) + model["intercept"]
    expected = np.exp(z + table["level"]) * table["years"]
    np.testing.assert_allclose([float(line) for line in lines[1:]], expected, rtol=1e-9)
    assert "z = A coef + intercept + level + log(years)" in model["objective"]
    table.assign(years=-1.0).to_csv(tmp_path / "wrong.csv", index=False)
    wrong = proxfl("predict", tmp_path / "model", tmp_path / "wrong.csv")
    assert wrong.code == 2 and "'years' is not positive in data row 1" in wrong.err


def test_a_path_weighs_the_rows_left_out(files, tmp_path):
    told = ["--target", "count", "--loss", "poisson", "--features", *FEATURES, "--points", 4]
    told += ["--row-weights", "times", "--exposure", "years", "--folds", 3]
    outcome = proxfl("path", *files, *told, "--out", tmp_path / "path")
    assert outcome.code == 0, outcome.err
    folds = pd.read_csv(tmp_path / "path/folds.csv")
    assert folds.drop_duplicates("fold")["share"].sum() == pytest.approx(1, rel=1e-12)


def apart(tmp_path, monkeypatch, **options):
    monkeypatch.setattr(field, "write_data", lambda folder, classes: write(folder))
    given = {"target": "count", "loss": "poisson", "features": FEATURES, "policy": POLICY}
    made = field.Field(tmp_path, **given, **options)
    return made.run(), made.trained()


def test_sites_that_are_apart_find_the_same_model(tmp_path, monkeypatch):
    options = {"row_weights": "times", "exposure": "years", "offset": "level", "l1": 0.05}
    found, here = apart(tmp_path, monkeypatch, **options)
    np.testing.assert_allclose(found.model.coef, here.model.coef, rtol=1e-9)
    assert found.solution.objective == pytest.approx(here.solution.objective, rel=1e-12)
    assert found.duality_gap == pytest.approx(here.duality_gap, rel=0.01)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("years", -1.0, "north.csv: column 'years' is not positive in data row 3;"),
        ("times", -1.0, "north.csv: column 'times' is below 0 in data row 3;"),
        ("level", np.inf, "north.csv: column 'level' is infinite in data row 3;"),
        ("times", "two", "north.csv: column 'times' is not numeric, first in data row 3;"),
    ],
)
def test_bad_rows_are_named(tmp_path, column, value, words):
    made = frames()
    made["north"][column] = made["north"][column].astype(object)
    made["north"].loc[2, column] = value
    given = ["--exposure", "years", "--offset", "level", "--row-weights", "times"]
    told = ["--target", "count", "--loss", "poisson", *given, "--out", tmp_path / "out"]
    outcome = proxfl("train", *write(tmp_path / "data", made), *told)
    assert outcome.code == 2 and words in outcome.err and not (tmp_path / "out").exists()


def test_weights_that_are_all_zero_are_refused(tmp_path):
    made = frames()
    made["north"]["times"] = 0
    told = ["--target", "count", "--loss", "poisson", "--row-weights", "times"]
    outcome = proxfl("train", *write(tmp_path / "data", made), *told)
    assert outcome.code == 2 and "north.csv: column 'times' is 0 in all rows" in outcome.err


def test_options_that_mean_nothing_are_refused():
    about = {"target": "y", "loss": "poisson"}
    assert "use 'offset'" in said(Spec, target="y", loss="logistic", exposure="t")
    assert "one score per row" in said(Spec, target="y", loss="softmax", offset="t")
    assert "row weights" in said(Spec, **about, row_weights="w", batch=4)


LEVELS = {
    "poisson": ("count", FAMILIES.Poisson(), {"exposure": "years"}),
    "logistic": ("ill", FAMILIES.Binomial(), {"offset": "level"}),
    "squared": ("cost", FAMILIES.Gaussian(), {"row_weights": "times"}),
    "gamma": ("cost", FAMILIES.Gamma(LOG), {}),
}


@pytest.mark.parametrize("loss", LEVELS)
def test_site_intercepts_are_those_of_a_model_with_a_dummy_for_each_site(files, loss, tmp_path):
    target, family, options = LEVELS[loss]
    known = fitted(target, family, sites=True, **arguments(options)).params.to_numpy()
    fit = trained(files, target, loss, site_intercepts=True, **options)
    np.testing.assert_allclose(fit.model.coef, known[:3], rtol=1e-8, atol=1e-9)
    assert float(fit.model.intercept) == 0.0
    results.write(tmp_path, fit, "")
    found = [intercept_of(tmp_path, file) for file in files]
    np.testing.assert_allclose(found, known[3:], rtol=1e-7, atol=1e-8)


def test_the_gap_with_site_intercepts_covers_what_can_be_gained_and_closes(files):
    options = {"site_intercepts": True, "exposure": "years", "l1": 0.2}
    best = trained(files, "count", "poisson", **options)
    with pytest.warns(UserWarning, match="Not converged"):
        early = train(best.spec.replace(rounds=2))
    assert 0 <= best.duality_gap <= 1e-9
    assert early.duality_gap >= early.solution.objective - best.solution.objective > 1e-6


def test_site_intercepts_stay_at_sites_that_are_apart(tmp_path, monkeypatch):
    options = {"site_intercepts": True, "exposure": "years", "l1": 0.05}
    found, here = apart(tmp_path, monkeypatch, **options)
    np.testing.assert_allclose(found.model.coef, here.model.coef, rtol=1e-9)
    assert found.solution.objective == pytest.approx(here.solution.objective, rel=1e-12)
    assert float(found.model.intercept) == 0.0


def test_predictions_need_the_intercept_of_the_site(files, tmp_path):
    told = ["--target", "count", "--loss", "poisson", "--features", *FEATURES]
    told += ["--exposure", "years", "--site-intercepts", "--out", tmp_path / "model"]
    assert proxfl("train", *files, *told).code == 0
    none = proxfl("predict", tmp_path / "model", files[0])
    assert none.code == 2 and "an intercept for each site, which stayed there" in none.err
    own = intercept_of(tmp_path / "model", files[0])
    by_file, by_number = (
        proxfl("predict", tmp_path / "model", files[0], "--intercept", given).out
        for given in (files[0], repr(own))
    )
    assert by_file == by_number
    table = frames()["north"]
    rates = np.array(by_file.splitlines()[1:], float)
    assert rates.sum() == pytest.approx(table["count"].sum(), rel=1e-9)  # what its intercept does
    each_site_is_judged_with_its_own(files, tmp_path / "model")
    text = (tmp_path / "model" / "model.json").read_text()
    about = ("how-good", "clinic", ("north", "south"), text, How())
    assert "which stayed there and no study asks for" in said(make_evaluation, *about)


def each_site_is_judged_with_its_own(files, model):
    judged = lambda *told: proxfl("evaluate", model, *files, "--json", "--draws", 0, *told)
    files = [Path(file) for file in files]
    own = {file.stem: intercept_of(model, file) for file in files}
    one = {
        name: json.loads(judged("--intercept", repr(b)).out)["sites"][name]
        for name, b in own.items()
    }
    found = json.loads(judged("--intercept", *files).out)["sites"]
    for name, scores in one.items():
        assert found[name]["loss"] == pytest.approx(scores["loss"], rel=1e-12)
    assert len({scores["calibration_intercept"] for scores in one.values()}) == len(files)
    few = judged("--intercept", files[0])
    assert few.code == 2 and f"none is given for {files[1].stem!r}" in few.err
    rest = judged("--intercept", files[0], repr(own[files[1].stem]))
    sites = json.loads(rest.out)["sites"]
    for file in files[:2]:
        assert sites[file.stem]["loss"] == pytest.approx(found[file.stem]["loss"], rel=1e-12)
    for told, words in ((["1", "2"], "takes one number"), ([], "which stayed there; give")):
        refused = judged(*(["--intercept", *told] if told else []))
        assert refused.code == 2 and words in refused.err


def test_a_path_takes_the_intercepts_of_the_rows_trained_on(files, tmp_path):
    told = ["--target", "count", "--loss", "poisson", "--features", *FEATURES, "--points", 3]
    told += ["--site-intercepts", "--exposure", "years", "--out", tmp_path / "path"]
    outcome = proxfl("path", *files, *told, "--folds", 3)
    assert outcome.code == 0, outcome.err
    lines = pd.read_csv(tmp_path / "path/path.csv")
    # Rows left out fit worse than those an intercept was found for; it is not found for them anew.
    assert (lines["left_out_loss"] > lines["loss"]).all()
    by_sites = proxfl("path", *files, *told[:-1], tmp_path / "sites", "--by", "sites")
    assert by_sites.code == 2 and "has no intercept of its own" in by_sites.err


def test_a_site_without_a_finite_intercept_is_named(tmp_path):
    made = frames()
    made["south"]["ill"] = 1
    told = ["--target", "ill", "--loss", "logistic", "--site-intercepts"]
    outcome = proxfl("train", *write(tmp_path / "data", made), *told, "--out", tmp_path / "out")
    assert outcome.code == 2 and "south.csv: the site has no intercept of its own" in outcome.err
    assert not (tmp_path / "out").exists()


def test_site_intercepts_go_with_losses_of_one_score_and_no_common_one():
    assert "has several" in said(Spec, target="y", loss="softmax", site_intercepts=True)
    both = {"site_intercepts": True, "intercept": True}
    assert "keep one key" in said(Spec, target="y", loss="huber", **both)
    cox = {"loss": "cox", "time": "t", "event": "e"}
    assert "a cox model has no intercept" in said(Spec, **cox, site_intercepts=True)


@pytest.mark.parametrize("setting", ["--negbin-dispersion 2.0", "--cox-ties efron"])
def test_a_setting_of_another_loss_is_refused(setting, tmp_path):
    done = proxfl("train", tmp_path, "--target", "y", "--loss", "squared", *setting.split())
    assert done.code == 2 and "means nothing to loss 'squared'" in done.err
