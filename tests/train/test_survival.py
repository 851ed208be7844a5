"""Cox models from files: those of trusted solvers on the stratified rows, near or far."""

import json

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.hazard_regression import PHReg

from proxfl.deploy.site.policy import Policy
from proxfl.tables.sites import read_frames
from proxfl.train.spec import Spec
from proxfl.train.survival import chances
from proxfl.train.train import train
from tests.cli.world import proxfl
from tests.deploy import conftest, field  # noqa: F401  # Flower, past its warnings
from tests.sentences import said

FEATURES, WEIGHT = list("abcd"), 0.03
ASKED = ["--loss", "cox", "--time", "days", "--event", "died"]

# As few rows as here, of which 4 have no event at one site, long runs, and answers without masks.
POLICY = Policy(rows=30, count=4, questions_per_row=100.0, unmasked=True)


def frames():
    """Three sites with hazards of their own, many ties, rows that enter late."""
    rng, made = np.random.default_rng(0), {}
    for i, name in enumerate(field.NAMES):
        A = rng.normal(size=(40 + 15 * i, 4)) * [1, 5, 0.2, 1] + 3 * rng.normal(size=4)
        risk = np.exp((A - A.mean(axis=0)) @ [0.6, -0.1, 1.0, 0.0])
        death = np.ceil(rng.exponential((10 + 40 * i) / risk))
        end = np.ceil(rng.uniform(5, 100, len(A)))
        days = np.minimum(death, end)
        frame = pd.DataFrame(A, columns=FEATURES).assign(days=days, died=(death <= end).astype(int))
        made[name] = frame.assign(start=np.floor(days * rng.uniform(0, 0.8, len(A))) - 0.5)
    return made


def write(folder, made=None):
    return field.write_frames(folder, made or frames())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    home = tmp_path_factory.mktemp("survival")
    write(home / "data")
    return home / "data"


def pooled():
    parts = [frame.assign(site=k) for k, frame in enumerate(frames().values())]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("late", [False, True])
def test_without_a_penalty_it_is_the_stratified_model_of_statsmodels(data, ties, late):
    table = pooled()
    entry = {"entry": table["start"].clip(lower=0)} if late else {}
    about = {"strata": table["site"], "ties": ties, **entry}
    model = PHReg(table["days"], table[FEATURES], table["died"], **about)
    known = model.fit(method="newton", tol=1e-12, maxiter=100)
    more = {"entry": "start"} if late else {"exclude": ("start",)}
    spec = Spec(
        sites=[str(data)], loss="cox", time="days", event="died", cox_ties=ties, tol=1e-11, **more
    )
    fit = train(spec)
    assert fit.solution.converged
    np.testing.assert_allclose(fit.model.coef, known.params, rtol=1e-7, atol=1e-9)
    assert -len(table) * fit.solution.objective == pytest.approx(known.llf, rel=1e-12)


def by_interior_points(table, weight):
    """The same objective with an l1 penalty, from a list of all risk sets; no ties are left out."""
    A = table[FEATURES].to_numpy()
    coef, terms = cp.Variable(4), []
    for i in np.flatnonzero(table["died"]):
        row = table.iloc[i]
        at_risk = ((table["days"] >= row["days"]) & (table["site"] == row["site"])).to_numpy()
        terms.append(cp.log_sum_exp((A[at_risk] - A[i]) @ coef))
    loss = sum(terms) / len(table)
    problem = cp.Problem(cp.Minimize(loss + weight * cp.norm1(coef)))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, coef.value


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    told = ["--exclude", "start", "--l1", WEIGHT, "--tol", 1e-9, "--out", folder]
    outcome = proxfl("train", data, *ASKED, *told, drawn=True)
    assert outcome.code == 0, outcome.err
    return folder


def read(path):
    return json.loads(path.read_text())


def test_with_l1_it_is_the_least_objective_and_certified_so(trained):
    value, coef = by_interior_points(pooled(), WEIGHT)
    model = read(trained / "model.json")
    held = model["certificate"]
    assert held["converged"] and held["objective"] <= value + 1e-10
    assert held["objective"] == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(model["coef"], coef, atol=1e-5)
    assert 0 <= held["duality_gap"] <= 1e-8 and model["intercept"] == 0


def test_the_gap_of_an_early_model_covers_what_can_be_gained(data, trained, tmp_path):
    short = ["--exclude", "start", "--l1", WEIGHT, "--rounds", 2, "--out", tmp_path / "short"]
    assert proxfl("train", data, *ASKED, *short).code == 3
    early, best = (read(f / "model.json")["certificate"] for f in (tmp_path / "short", trained))
    assert early["duality_gap"] >= early["objective"] - best["objective"] > 1e-6


def test_predictions_are_log_hazards(data, trained):
    rows = data / "north.csv"
    lines = proxfl("predict", trained, rows).out.splitlines()
    expected = pd.read_csv(rows)[FEATURES].to_numpy() @ np.array(
        read(trained / "model.json")["coef"]
    )
    np.testing.assert_allclose([float(line) for line in lines[1:]], expected, rtol=1e-12)


def test_a_path_ends_at_the_best_weight_and_tells_concordance(data, tmp_path):
    told = ["--exclude", "start", "--points", 6, "--folds", 3, "--out", tmp_path / "path"]
    outcome = proxfl("path", data, *ASKED, *told)
    assert outcome.code == 0, outcome.err
    lines = pd.read_csv(tmp_path / "path" / "path.csv")
    assert lines["nonzeros"].iloc[0] == 0 < lines["nonzeros"].iloc[-1] and lines["converged"].all()
    assert 0.6 < lines["left_out_concordance"].iloc[-1] < 1
    for weight, value in zip(lines["weight"][::3], lines["objective"][::3], strict=True):
        assert value <= by_interior_points(pooled(), weight)[0] + 1e-9


def test_sites_that_are_apart_find_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setattr(field, "write_data", lambda folder, classes: write(folder))
    asked = {"loss": "cox", "time": "days", "event": "died", "target": None, "l1": WEIGHT}
    apart = field.Field(tmp_path, policy=POLICY, **asked, entry="start", cox_ties="efron")
    found, here = apart.run(), apart.trained()
    np.testing.assert_allclose(found.model.coef, here.model.coef, rtol=1e-9)
    assert found.duality_gap is not None and found.solution.converged
    assert found.solution.objective == pytest.approx(here.solution.objective, rel=1e-12)


def changed(folder, **columns):
    made = frames()
    for name, (row, value) in columns.items():
        made["north"][name] = made["north"][name].astype(float)
        made["north"].loc[row, name] = value
    return write(folder, made)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"days": (2, 0.0)}, "north.csv: column 'days' is not positive in data row 3;"),
        ({"died": (4, 2.0)}, "north.csv: column 'died' is neither 0 nor 1 in data row 5;"),
        ({"died": (4, np.nan)}, "north.csv: column 'died' has no value in data row 5;"),
        ({"start": (0, 1e9)}, "north.csv: column 'start' is not before the time in data row 1;"),
    ],
)
def test_bad_rows_are_named(tmp_path, wrong, words):
    changed(tmp_path / "data", **wrong)
    out = ["--entry", "start", "--out", tmp_path / "out"]
    outcome = proxfl("train", tmp_path / "data", *ASKED, *out)
    assert outcome.code == 2 and words in outcome.err and not (tmp_path / "out").exists()


def test_a_site_without_events_would_add_nothing_and_is_refused(tmp_path):
    made = frames()
    made["north"]["died"] = 0
    spec = Spec(loss="cox", time="days", event="died", tol=1e-10)
    some = read_frames(made, ("days", "died"))
    all_of, others = (train(spec, tables) for tables in (some, some[1:]))
    share = len(made["north"]) / sum(map(len, made.values()))
    assert all_of.solution.site_losses["north"] == 0.0
    np.testing.assert_allclose(all_of.model.coef, others.model.coef, rtol=1e-6)
    expected = (1 - share) * others.solution.objective
    assert all_of.solution.objective == pytest.approx(expected, rel=1e-10)
    outcome = proxfl("train", *write(tmp_path / "some", made), *ASKED)
    assert outcome.code == 2 and "north.csv: column 'died' is 0 in all" in outcome.err
    assert "The event is 1 in no row of any site" in said(train, spec, some[:1])


def test_options_that_mean_nothing_are_refused():
    options = {"loss": "cox", "time": "t", "event": "e"}
    assert "key 'event' is missing; it is the column" in said(Spec, loss="cox", time="t")
    assert "key 'target' is missing" in said(Spec, loss="logistic")
    assert "'target' means nothing to loss 'cox'" in said(Spec, **options, target="y")
    assert "'time' means nothing to loss 'logistic'" in said(
        Spec, loss="logistic", target="y", time="t"
    )
    assert "a cox model has no intercept" in said(Spec, **options, intercept=True)
    assert "losses of whole sites" in said(Spec, **options, batch=3)
    assert "use breslow" in said(Spec, **options, cox_ties="efron", row_weights="w")
    assert Spec(**options).intercept is False and Spec(loss="huber", target="y").intercept


def breslow(frame, coef, site_scores, times):
    """The hazard up to each time of a row with score 0, by the definition."""
    risk, died = np.exp(site_scores), frame["died"] == 1
    steps = lambda t: [risk[frame["days"] >= s].sum() for s in frame["days"][died] if s <= t]
    return np.array([sum(1 / total for total in steps(t)) for t in times])


def test_chances_are_those_of_the_sites_own_hazard(data, trained):
    frame, coef = frames()["south"], np.array(read(trained / "model.json")["coef"])
    told = read(trained / "model.json")["survival"]["sites"]["south"]
    times = [told["times"][4], told["times"][20]]
    asked = ["--site", "south", "--times", *map(str, times)]
    outcome = proxfl("predict", trained, data / "south.csv", *asked)
    lines = np.array([line.split(",") for line in outcome.out.splitlines()[1:]], float)
    z = frame[FEATURES].to_numpy() @ coef
    hazard = breslow(frame, coef, z, times)
    np.testing.assert_allclose(lines[:, 0], z, rtol=1e-10)
    np.testing.assert_allclose(lines[:, 1:], np.exp(-np.outer(np.exp(z), hazard)), rtol=1e-9)
    assert (
        "no hazard of a site 'east'"
        in proxfl("predict", trained, data / "south.csv", "--site", "east", "--times", "1").err
    )
    late = proxfl("predict", trained, data / "south.csv", "--site", "south", "--times", "1e9")
    assert late.code == 2 and "tells its hazard up to" in late.err


def test_a_chance_falls_with_time_between_the_times_told_and_where_nobody_is_there_at_first():
    told = {"times": [0.0, 10.0, 20.0, 30.0], "known": [False, True, True, False]}
    held = {"score": 0.0, "sites": {"south": told | {"hazard": [0.0, 0.2, 0.8, 0.0]}}}
    times = np.linspace(0, 20, 9).tolist()
    (found,) = chances(held, "south", np.zeros(1), times)
    np.testing.assert_allclose(-np.log(found), np.interp(times, [0, 10, 20], [0, 0.2, 0.8]))
    assert found[0] == 1 and (np.diff(found) < 0).all()
    assert "up to 20, got time 25" in said(chances, held, "south", np.zeros(1), [25.0])


def test_a_curve_ends_where_few_rows_are_left(trained):
    for name, told in read(trained / "model.json")["survival"]["sites"].items():
        there = [(frames()[name]["days"] >= t).sum() for t in told["times"]]
        assert told["known"] == [count >= 5 for count in there]
        assert not np.array(told["hazard"])[~np.array(told["known"])].any()


def test_the_report_shows_curves_and_concordance(trained):
    page = (trained / "report.html").read_text()
    assert "Survival" in page and "Breslow" in page and "concordance" in page
