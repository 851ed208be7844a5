"""`proxfl train` on files: every option, the folder it writes, and what it refuses."""

import html
import json
import math

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from proxfl.algorithms import REGISTRY as ALGORITHMS
from proxfl.cli.shared import options
from proxfl.train.spec import Spec
from tests.cli import world
from tests.cli.fits import CASES, arguments
from tests.cli.objective import objective
from tests.cli.world import proxfl

FILES = {"manifest.json", "model.json", "model.safetensors", "history.jsonl", "report.html"}


NOT_IN_CASES = {
    *("--algorithm", "--batch", "--cohort", "--inference", "--rounds", "--out"),  # below
    *("--offset", "--exposure", "--row-weights", "--site-intercepts"),  # in train/test_rows
    *("--negbin-dispersion", "--time", "--event", "--entry", "--cox-ties"),  # train/test_survival
    *("--dp-clip", "--dp-noise", "--dp-epsilon", "--dp-delta", "--dp-honest"),  # test_privacy
}


def read(path):
    return json.loads(path.read_text())


def sites_of(data, name, model):
    """The sites' features and targets, as the loss takes them."""
    tables = [read_table(path) for path in sorted((data / CASES[name][0]).iterdir())]
    sites = []
    for table in tables:
        y = table[model["target"]].to_numpy()
        if model["classes"]:
            y = np.searchsorted(model["classes"], y)
        sites.append((table, 2 * y - 1 if model["loss"] == "logistic" else y))
    return sites


def read_table(path):
    if path.suffix == ".csv":
        return pd.read_csv(path)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".npz":
        with np.load(path) as held:
            return pd.DataFrame(held["X"], columns=held["features"]).assign(digit=held["y"])
    whole = world.diabetes()
    part = world.parts(whole, 3)[int(path.stem[-1])]
    return part.set_axis([*(f"x{j + 1}" for j in range(10)), "y"], axis=1)


@pytest.mark.parametrize("name", CASES)
def test_the_objective_told_is_that_of_the_model_written(data, fitted, name):
    outcome, folder = fitted(name)
    assert outcome.code == 0, outcome.err
    model, manifest = read(folder / "model.json"), read(folder / "manifest.json")
    config = manifest["config"]
    tables = sites_of(data, name, model)
    if config["missing"] == "drop":
        tables = [(t.dropna(), y[t.notna().all(axis=1)]) for t, y in tables]
    if config["schema"]:
        tables = [(world.made(table), y) for table, y in tables]
    pooled = pd.concat([table for table, _ in tables])[model["features"]]
    spread = pooled.std(ddof=0).to_numpy()
    if config["missing"] == "mean" or config["schema"]:
        tables = [(table.fillna(pooled.mean()), y) for table, y in tables]
    sites = [(table[model["features"]].to_numpy(), y) for table, y in tables]
    coef, intercept = np.array(model["coef"]), np.array(model["intercept"])
    unit = np.where(spread > 0, spread, 1.0) if config["standardise"] else np.ones(len(spread))
    found = objective(config, model["features"], sites, coef, intercept, unit)
    assert found == pytest.approx(model["certificate"]["objective"], rel=1e-10)
    limits(config, coef)


def limits(config, coef):
    if config["nonneg"] or config["simplex"]:
        assert (coef >= 0).all() and (coef == 0).any()
    if config["box"]:
        assert (coef >= config["box"][0]).all()
    if config["simplex"]:
        assert coef.sum() == pytest.approx(config["simplex"], rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_folder_is_complete_and_agrees_with_what_was_printed(fitted, name):
    outcome, folder = fitted(name)
    printed = json.loads(outcome.out)
    assert {path.name for path in folder.iterdir()} == FILES
    model, manifest = read(folder / "model.json"), read(folder / "manifest.json")
    certificate = model["certificate"]
    for key in ("objective", "optimality", "tolerance", "converged", "rounds"):
        assert printed[key] == certificate[key]
    assert certificate["optimality"] <= certificate["tolerance"] and certificate["converged"]
    assert printed["nonzeros"] == len(model["nonzeros"]) == np.count_nonzero(model["coef"])
    assert (printed["bytes_up"], printed["bytes_down"]) == (
        manifest["bytes_up"],
        manifest["bytes_down"],
    )
    arrays = load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(arrays["coef"], model["coef"])
    np.testing.assert_array_equal(arrays["intercept"], model["intercept"])
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [line["round"] for line in history] == list(range(1, certificate["rounds"] + 1))
    assert history[-1]["bytes_up"] < manifest["bytes_up"]  # the certificate comes on top


def test_the_gap_bounds_the_distance_to_the_optimum(fitted):
    for name in ("l1", "elastic net", "softmax", "simplex"):
        certificate = read(fitted(name)[1] / "model.json")["certificate"]
        assert 0 <= certificate["duality_gap"] < 1e-3 * abs(certificate["objective"])


def test_json_names_coefficients_by_feature_and_by_class(fitted):
    single, many = (json.loads(fitted(name)[0].out) for name in ("l1", "softmax"))
    features = read(fitted("l1")[1] / "model.json")["features"]
    assert list(single["coef"]) == features and isinstance(single["intercept"], float)
    assert list(many["coef"]) == list(many["intercept"]) == ["0", "1", "2"]
    assert all(len(by_feature) == 13 for by_feature in many["coef"].values())
    words = "objective optimality tolerance converged rounds nonzeros exchanges bytes_up bytes_down"
    assert list(single) == list(many) == [*words.split(), "algorithm", "coef", "intercept"]


def test_exchanges_are_all_of_the_ledger_and_the_method_says_why(fitted):
    outcome, folder = fitted("l1")
    told, manifest = json.loads(outcome.out), read(folder / "manifest.json")
    kinds = manifest["ledger"].values()
    assert told["exchanges"] == sum(kind["exchanges"] for kind in kinds) > told["rounds"]
    assert manifest["method"]["name"] == told["algorithm"] == "newton"
    assert manifest["method"]["reason"] in html.unescape((folder / "report.html").read_text())
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert (np.diff([line["exchanges"] for line in history]) >= 1).all()


def test_standard_errors_are_told_if_asked_for(data, tmp_path):
    base = ["train", data / "diabetes", "--target", "progression", "--loss", "squared"]
    outcome = proxfl(*base, "--inference", "--out", tmp_path / "a", "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert list(told["inference"]) == [*told["coef"], "intercept"]
    for name, line in told["inference"].items():
        assert line["lower"] < line["coef"] < line["upper"] and 0 <= line["p"] <= 1
        held = told["coef"].get(name, told["intercept"])
        assert line["coef"] == pytest.approx(held, rel=1e-12)
    table = pd.read_csv(tmp_path / "a" / "inference.csv").set_index("feature")
    assert table["robust_se"].to_dict() == {n: v["robust_se"] for n, v in told["inference"].items()}
    assert "Standard errors" in (tmp_path / "a" / "report.html").read_text()
    refused = proxfl(*base, "--inference", "--l2", 0.1, "--out", tmp_path / "b")
    assert refused.code == 2 and "not known with l2" in refused.err
    assert not (tmp_path / "b").exists()


def test_an_optimum_at_infinity_is_no_model(data, tmp_path):
    told = "--target cultivar --loss softmax --json"
    outcome = proxfl("train", data / "wine", *told.split(), "--out", tmp_path / "a")
    assert outcome.code == 3 and not json.loads(outcome.out)["converged"]
    assert "optimum is at infinity" in (tmp_path / "a" / "report.html").read_text()
    assert "--resume" not in outcome.err


def test_every_option_is_exercised():
    words = {word for _, told in CASES.values() for word in told.split() if word[:2] == "--"}
    names = {word.replace("--no-", "--") for word in words} | NOT_IN_CASES
    assert names == {options.flag(key) for key in Spec.table()} - {"--sites"}


def test_a_toml_file_holds_the_same_options_and_the_command_line_wins(data, fitted, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(
        f'sites = ["{data / "cancer"}"]\ntarget = "benign"\nloss = "logistic"\nl1 = 0.5\n'
        'standardise = true\nout = "results"\n'
    )
    outcome = proxfl("train", "--config", path, "--l1", "0.02", "--json")
    assert outcome.code == 0 and json.loads(outcome.out) == json.loads(fitted("l1")[0].out)
    assert {p.name for p in (tmp_path / "results").iterdir()} == FILES


def test_without_json_the_result_is_told_in_words_and_folders_are_fresh(
    data, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for folder in ("out/train-benign", "out/train-benign-2"):
        outcome = proxfl(*arguments(data, "l1"))
        assert outcome.code == 0
        for words in ("coefficients are not zero", "worst concave points", "Converged after"):
            assert words in outcome.out
        assert f"Results: {folder}\n" in outcome.out and (tmp_path / folder).is_dir()


def test_rounds_used_up_are_said_and_more_may_follow(data, fitted, tmp_path):
    folder = tmp_path / "short"
    short = proxfl(*arguments(data, "l1"), "--rounds", 4, "--out", folder, "--json")
    assert short.code == 3 and not json.loads(short.out)["converged"]
    assert "not met" in short.err and "--resume" in short.err
    assert "Not converged" in (folder / "report.html").read_text()
    longer = proxfl("train", "--resume", folder, "--rounds", 10_000, "--json")
    assert longer.code == 0 and {path.name for path in folder.iterdir()} == FILES
    straight = fitted("l1")[1]
    assert (folder / "model.json").read_bytes() == (straight / "model.json").read_bytes()
    assert (folder / "history.jsonl").read_bytes() == (straight / "history.jsonl").read_bytes()
    again = proxfl("train", "--resume", folder, "--json")
    assert (again.code, again.out) == (0, longer.out) and "finished" in again.err


@pytest.mark.parametrize(
    "told",
    [
        "--algorithm proximal-gradient --l1 0.5",
        "--algorithm decoupled-partial --cohort 2 --batch 20 --local-steps 2 --l1 0.5",
    ],
)
def test_other_methods_run_with_fixed_steps(data, tmp_path, told):
    base = ["train", data / "diabetes", "--target", "progression", "--loss", "squared"]
    outcome = proxfl(*base, *told.split(), "--rounds", 25, "--out", tmp_path / "a", "--json")
    assert outcome.code == 3, outcome.err
    found = json.loads(outcome.out)
    assert found["rounds"] == 25 and math.isfinite(found["objective"])
    model = read(tmp_path / "a" / "model.json")
    lines = [json.loads(line) for line in (tmp_path / "a/history.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines if line["optimality"] is not None] == [10, 20, 25]
    assert lines[-1]["objective"] == model["certificate"]["objective"]


def test_the_help_shares_its_words_with_the_options():
    outcome = proxfl("train", "--help")
    told = " ".join(outcome.out.split())
    assert outcome.code == 0
    for option in Spec.table().values():
        words = option.meaning.split(";")[0]
        assert words.replace("- ", "-") in told.replace("- ", "-"), option.key
    assert all(name in told.replace("- ", "-") for name in ALGORITHMS)
    assert "minimise sum_i w_i mean_rows loss(z, y)" in told and "130 interrupted" in told
