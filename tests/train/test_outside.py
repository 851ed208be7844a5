"""A loss and a penalty, one file each outside the package, do all that those inside do."""

import json
import sys
from importlib.metadata import EntryPoint

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from proxfl import losses, plugins
from proxfl.train import penalties
from proxfl.train.regulariser import largest_useful_weight
from proxfl.train.spec import Spec
from tests.cli.world import proxfl
from tests.deploy import conftest, field  # noqa: F401  # Flower, past its warnings
from tests.sentences import said

FEATURES, WEIGHT = list("abcde"), 0.05
ASKED = ["--target", "cost", "--loss", "tweedie", "--standardise"]


@pytest.fixture(scope="module", autouse=True)
def outside():
    """Both files, found by their entry points, and gone from the registries at the end."""
    modules = {name: f"tests.outside.{name}" for name in ("tweedie", "slope")}
    found = [EntryPoint(name, where, "proxfl.plugins") for name, where in modules.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", lambda group: found)
        for where in modules.values():
            patch.delitem(sys.modules, where, raising=False)
        plugins.load.cache_clear()
        yield
    plugins.load.cache_clear()
    losses.REGISTRY.pop("tweedie", None)
    penalties.REGISTRY.pop("slope", None)


def frames():
    """Three sites whose costs are positive; two features count alike, one does not count."""
    rng, made = np.random.default_rng(0), {}
    for i, name in enumerate(field.NAMES):
        A = rng.normal(size=(30 + 10 * i, 5)) + rng.normal(size=5)
        mean = np.exp(A @ [0.5, 0.5, -0.3, 0.1, 0.0] + 0.5)
        cost = mean * rng.gamma(5.0, 1 / 5.0, len(A))
        made[name] = pd.DataFrame(A, columns=FEATURES).assign(cost=cost)
    return made


def write(folder):
    folder.mkdir(parents=True)
    files = []
    for name, frame in frames().items():
        files.append(folder / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    return files


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The data's folder, and that of a model trained on the command line."""
    home = tmp_path_factory.mktemp("outside")
    write(home / "data")
    outcome = proxfl(
        "train", home / "data", *ASKED, "--slope", WEIGHT, "--tol", 1e-8, "--out", home / "model"
    )
    assert outcome.code == 0, outcome.err
    return home / "data", home / "model"


def pooled():
    table = pd.concat(frames().values())
    A = table[FEATURES].to_numpy()
    return (A - A.mean(axis=0)) / A.std(axis=0), A, table["cost"].to_numpy()


def objective(coef, intercept, A, y, weight):
    z = A @ coef + intercept
    ramp = 1 - np.arange(5) / 5
    return (
        np.mean(2 * y * np.exp(-z / 2) + 2 * np.exp(z / 2))
        + weight * ramp @ np.sort(np.abs(coef))[::-1]
    )


def least(A, y, weight):
    """The same problem by an interior point method."""
    coef, intercept = cp.Variable(5), cp.Variable()
    z = A @ coef + intercept
    ordered = sum(cp.sum_largest(cp.abs(coef), k) for k in range(1, 6)) / 5
    loss = 2 * cp.sum(cp.multiply(y, cp.exp(-z / 2)) + cp.exp(z / 2)) / len(y)
    problem = cp.Problem(cp.Minimize(loss + weight * ordered))
    problem.solve(solver="CLARABEL")
    return problem.value, coef.value


def test_the_command_line_finds_both(trained):
    told = " ".join(proxfl("train", "--help").out.split())
    assert ", tweedie" in told and "--slope X" in told and "2 y exp(-z/2) + 2 exp(z/2)" in told
    assert "the weight of absolute coefficients in order" in told
    wrong = proxfl("train", trained[0], *ASKED, "--slope", "-1")
    assert wrong.code == 2 and "key 'slope' must be a non-negative number, got -1" in wrong.err


def test_the_model_is_the_least_objective_and_certified_so(trained):
    A, raw, y = pooled()
    value, coef = least(A, y, WEIGHT)
    model = read(trained[1] / "model.json")
    held, found = model["certificate"], np.array(model["coef"]) * raw.std(axis=0)
    np.testing.assert_allclose(found, coef, atol=1e-5)
    shift = model["intercept"] + raw.mean(axis=0) @ np.array(model["coef"])
    assert held["objective"] == pytest.approx(objective(found, shift, A, y, WEIGHT), rel=1e-12)
    assert held["converged"] and held["objective"] <= value + 1e-12
    # The gap bounds what can be gained; here nothing can be, and it has closed.
    assert 0 <= held["duality_gap"] <= 1e-7
    assert (
        model["penalty"] == {"slope": WEIGHT} and "2 y exp(-z/2) + 2 exp(z/2)" in model["objective"]
    )


def test_the_gap_of_an_early_model_covers_what_can_be_gained(trained, tmp_path):
    """Far from the solution the gap is above the difference, and the difference above zero."""
    short = ["--slope", WEIGHT, "--rounds", 3, "--out", tmp_path / "short"]
    assert proxfl("train", trained[0], *ASKED, *short).code == 3
    early, best = (read(f / "model.json")["certificate"] for f in (tmp_path / "short", trained[1]))
    assert early["duality_gap"] >= early["objective"] - best["objective"] > 1e-6


def test_predictions_are_means(trained, tmp_path):
    rows = trained[0] / "north.csv"
    lines = proxfl("predict", trained[1], rows).out.splitlines()
    model, A = read(trained[1] / "model.json"), pd.read_csv(rows)[FEATURES].to_numpy()
    expected = np.exp(A @ np.array(model["coef"]) + model["intercept"])
    np.testing.assert_allclose([float(line) for line in lines[1:]], expected, rtol=1e-12)
    assert "no probabilities" in proxfl("predict", trained[1], rows, "--proba").err


def test_labels_outside_the_target_are_refused_by_row(trained, tmp_path):
    frame = frames()["north"]
    frame.loc[2, "cost"] = -1.0
    frame.to_csv(tmp_path / "north.csv", index=False)
    outcome = proxfl("train", tmp_path / "north.csv", *ASKED, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert "'cost' is below 0 in data row 3; tweedie needs costs" in outcome.err


def test_the_report_speaks_of_both(trained):
    page = (trained[1] / "report.html").read_text()
    assert "Minimise the mean tweedie loss per row" in page
    assert "0.05 times absolute coefficients in order" in page and "|coef|_(k)" in page


def test_a_path_runs_along_the_weight(trained, tmp_path):
    folder = tmp_path / "path"
    told = ["--sweep", "slope", "--points", 6, "--folds", 3, "--tol", 1e-8, "--out", folder]
    outcome = proxfl("path", trained[0], *ASKED, *told, drawn=True)
    assert outcome.code == 0, outcome.err
    path = pd.read_csv(folder / "path.csv")
    assert path["nonzeros"].iloc[0] == 0 < path["nonzeros"].iloc[-1] and path["converged"].all()
    A, _, y = pooled()
    for weight, value in zip(path["weight"][::2], path["objective"][::2], strict=True):
        assert value <= least(A, y, weight)[0] + 1e-12
    assert "the slope weight of a tweedie model" in (folder / "report.html").read_text()
    assert read(folder / "path.json")["choice"]["sweep"] == "slope"


def test_the_path_begins_at_the_dual_norm():
    spec = Spec(target="y", loss="tweedie", slope=1.0, intercept=False)
    gradient = np.array([0.5, -2.0, 1.5, 0.25, 0.0])
    sums = np.cumsum(np.sort(np.abs(gradient))[::-1]) / np.cumsum(1 - np.arange(5) / 5)
    found = largest_useful_weight("slope", spec, tuple("abcde"), gradient)
    assert found == pytest.approx(sums.max(), rel=1e-14)


def test_it_goes_with_a_ridge_and_with_nothing_else(trained, tmp_path):
    more = ["--slope", WEIGHT, "--l2", 0.1, "--out", tmp_path / "ridge"]
    assert proxfl("train", trained[0], *ASKED, *more).code == 0
    more = ["--slope", WEIGHT, "--l1", 0.1, "--out", tmp_path / "l1"]
    assert "l1 and slope have no known joint prox" in proxfl("train", trained[0], *ASKED, *more).err


def test_sites_that_are_apart_find_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setattr(field, "write_data", lambda folder, classes: write(folder))
    asked = {"target": "cost", "loss": "tweedie", "slope": WEIGHT, "standardise": True}
    apart = field.Field(tmp_path, **asked)
    found, here = apart.run(), apart.trained()
    np.testing.assert_allclose(found.model.coef, here.model.coef, rtol=1e-8)
    assert found.duality_gap is not None and found.solution.converged
    assert found.solution.objective == pytest.approx(here.solution.objective, rel=1e-12)


def test_the_loss_obeys_the_laws_of_losses():
    loss, y = losses.named("tweedie")(), jnp.asarray(1.7)
    for z in (-1.0, 0.3, 2.0):
        z = jnp.asarray(z)
        assert loss.slope(z, y) == pytest.approx(float(jax.grad(loss.value)(z, y)), rel=1e-14)
        assert loss.second(z, y) == pytest.approx(float(jax.grad(loss.slope)(z, y)), rel=1e-14)
        u = 0.8 * loss.slope(z, y)
        below = lambda t, u=u: float(loss.value(jnp.asarray(t), y) - u * t)
        best = minimize_scalar(below, bounds=(-30, 30), method="bounded", options={"xatol": 1e-10})
        assert loss.conjugate(u, y) == pytest.approx(-best.fun, abs=1e-8)


def test_the_prox_and_the_distance_are_those_of_the_sorted_norm():
    spec = Spec(target="y", loss="tweedie", slope=0.7)
    g, rng = penalties.REGISTRY["slope"].make(spec, FEATURES, 1), np.random.default_rng(1)
    for _ in range(20):
        x = jnp.asarray(rng.normal(size=5).round(1))  # rounded, so that some are equal
        u = cp.Variable(5)
        ordered = sum(cp.sum_largest(cp.abs(u), k) for k in range(1, 6)) / 5
        problem = cp.Problem(cp.Minimize(0.7 * 0.5 * ordered + cp.sum_squares(u - np.array(x)) / 2))
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        p = g.prox(x, 0.5)
        np.testing.assert_allclose(p, u.value, atol=1e-5)
        assert float(g.distance(p, (p - x) / 0.5)) < 1e-14  # (x - prox) / step is a subgradient
        assert float(g.distance(p, (p - x) / 0.5 + 1.0)) > 1e-3


def test_a_plug_in_that_cannot_be_loaded_is_named(monkeypatch):
    broken = [EntryPoint("odd", "tests.outside.nowhere", "proxfl.plugins")]
    monkeypatch.setattr(plugins, "entry_points", lambda group: broken)
    plugins.load.cache_clear()
    assert "the plug-in 'odd' (tests.outside.nowhere) cannot be loaded" in said(Spec.table)
    plugins.load.cache_clear()


def test_a_model_whose_loss_is_not_installed_says_so(trained, monkeypatch):
    monkeypatch.delitem(losses.REGISTRY, "tweedie")
    outcome = proxfl("predict", trained[1], trained[0] / "north.csv")
    assert outcome.code == 2 and "there is no loss 'tweedie', only logistic, " in outcome.err
