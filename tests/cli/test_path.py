"""`proxfl path` on files: what it chooses, the folder it writes, and what it refuses."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from proxfl.report import path as path_folder
from proxfl.train.choice import Choice
from tests.cli.world import pictures, proxfl

FILES = {
    *("path.csv", "coefficients.csv", "folds.csv", "stability.csv"),
    *("figures", "report.html", "path.json", "model"),
}
FEW = "--points 6 --ratio 0.05"

# Between them, each option of a path.
CASES = {
    "rows": (
        "cancer",
        f"--target benign --loss logistic --standardise {FEW} --folds 3 --rule 1se --seed 4",
    ),
    "sites": (
        "diabetes",
        f"--target progression --loss squared --sweep group-weight --group groups.csv {FEW} "
        "--by sites --rule min",
    ),
}


UNPENALISED = {"rows": set(), "sites": {"age"}}  # which groups.csv puts in no group


@pytest.fixture(scope="module")
def paths(data, tmp_path_factory):
    """The outcome of each case and its folder, run once."""
    done = {}

    def run(name):
        if name not in done:
            folder = tmp_path_factory.mktemp("paths") / name
            told = [*arguments(data, name), "--out", folder, "--json"]
            done[name] = proxfl("path", *told, drawn=name == "sites"), folder
        return done[name]

    return run


def arguments(data, name):
    home, told = CASES[name]
    located = [str(data / word) if word.endswith(".csv") else word for word in told.split()]
    return [data / home, *located]


def read(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", CASES)
def test_the_folder_is_complete_and_agrees_with_what_was_printed(paths, name):
    outcome, folder = paths(name)
    assert outcome.code == 0, outcome.err
    assert {path.name for path in folder.iterdir()} == FILES
    assert {path.name for path in folder.parent.iterdir()} == {name}
    drawn = {path.name for path in (folder / "figures").iterdir()}
    kinds = [f"{figure}.{kind}" for figure in DRAWN for kind in ("png", "svg")]
    assert drawn == set(kinds)
    assert pictures(folder / "figures") == (drawn if name == "sites" else set())
    told, printed = read(folder / "path.json"), json.loads(outcome.out)
    for key in ("choice", "weight", "weights", "left_out_loss", "left_out_error"):
        assert printed[key] == told[key]
    model = read(folder / "model" / "model.json")
    assert printed["objective"] == model["certificate"]["objective"] and printed["converged"]
    assert model["penalty"][told["choice"]["sweep"]] == told["weight"]
    assert told["weights"]["1se"] >= told["weights"]["min"]
    assert told["weight"] == told["weights"][told["choice"]["rule"]]


DRAWN = ("coefficients", "cross-validation", "stability")


@pytest.mark.parametrize("name", CASES)
def test_tables_agree_with_one_another(paths, name):
    folder = paths(name)[1]
    along, told = pd.read_csv(folder / "path.csv"), read(folder / "path.json")
    assert along["converged"].all() and len(along) == 6
    entries = pd.read_csv(folder / "coefficients.csv")
    first = entries[entries["weight"] == along["weight"][0]]["feature"]
    assert set(first) == UNPENALISED[name]
    found = entries.groupby("weight").size().reindex(along["weight"], fill_value=0)
    assert found.tolist() == along["nonzeros"].tolist()
    folds = pd.read_csv(folder / "folds.csv")
    folds["loss"] *= folds["share"]
    means = folds.groupby("weight")["loss"].sum().reindex(along["weight"])
    np.testing.assert_allclose(means, along["left_out_loss"], rtol=1e-12)
    assert list(dict.fromkeys(folds["fold"])) == told["folds"]
    stability = pd.read_csv(folder / "stability.csv")
    assert stability["share"].between(0, 1).all()
    chosen = along[along["weight"] == told["weight"]].iloc[0]
    assert chosen["left_out_loss"] == told["left_out_loss"]


def test_the_chosen_model_is_that_of_train_at_its_weight(data, paths, tmp_path):
    """Bit for bit: the refit is a training run like any other."""
    folder = paths("rows")[1]
    weight = read(folder / "path.json")["weight"]
    told = f"--target benign --loss logistic --standardise --seed 4 --l1 {weight!r}"
    outcome = proxfl("train", data / "cancer", *told.split(), "--out", tmp_path / "alone")
    assert outcome.code == 0
    for name in ("model.json", "model.safetensors", "history.jsonl"):
        assert (tmp_path / "alone" / name).read_bytes() == (folder / "model" / name).read_bytes()


def test_the_models_of_a_path_are_the_chosen_one_at_its_weight(paths):
    """A warm start and a cold one: their objectives differ by the square of the optimality."""
    folder = paths("rows")[1]
    model, weight = read(folder / "model" / "model.json"), read(folder / "path.json")["weight"]
    table, along = pd.read_csv(folder / "coefficients.csv"), pd.read_csv(folder / "path.csv")
    warm = table[table["weight"] == weight]["feature"]
    assert set(warm) == {entry["feature"] for entry in model["nonzeros"]}
    objective = along[along["weight"] == weight]["objective"].item()
    assert objective == pytest.approx(model["certificate"]["objective"], rel=1e-9)


def test_predict_inspect_and_report_take_the_chosen_model(data, paths, tmp_path):
    model = paths("rows")[1] / "model"
    assert proxfl("predict", model, data / "cancer" / "site0.csv").code == 0
    assert "Target: benign" in proxfl("inspect", model).out
    assert proxfl("report", model).code == 0


def test_the_report_tells_what_was_chosen_and_how_to_do_it_again(paths):
    text = (paths("sites")[1] / "report.html").read_text()
    for words in ("By the least loss, group_weight = ", "Each site was left out once", "site2"):
        assert words in text
    assert "proxfl path" in text and "--by sites" in text
    assert "share of folds" in (paths("rows")[1] / "report.html").read_text()


def test_without_json_it_is_told_in_words_and_a_file_may_hold_the_options(
    data, paths, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "experiment.toml"
    config.write_text(
        f'sites = ["{data / "cancer"}"]\ntarget = "benign"\nloss = "logistic"\nl1 = 0.5\n'
        "standardise = true\npoints = 6\nratio = 0.5\nfolds = 3\nseed = 4\n"
    )
    outcome = proxfl("path", "--config", config, "--ratio", "0.05")
    assert outcome.code == 0, outcome.err
    assert "least loss" in outcome.out and "one standard error (chosen)" in flat(outcome.out)
    assert "Results: out/path-benign\n" in outcome.out
    found = read(tmp_path / "out/path-benign/path.json")
    assert found["weight"] == read(paths("rows")[1] / "path.json")["weight"]
    assert found["command"] == f"proxfl path --ratio 0.05 --config {config}"


def flat(table):
    """The words of a table, whose cells may be broken over lines."""
    return " ".join(re.findall(r"[(]?[a-z]{3,}[)]?", table))


def test_rounds_used_up_are_said(data, tmp_path):
    told = f"--target benign --loss logistic --standardise {FEW} --folds 3 --rounds 3"
    outcome = proxfl("path", data / "cancer", *told.split(), "--out", tmp_path / "short")
    assert outcome.code == 3 and "The certificate of the chosen model is not met" in outcome.err
    assert not read(tmp_path / "short" / "path.json")["all_converged"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("the disk is full")])
def test_a_path_that_cannot_be_finished_leaves_nothing(data, tmp_path, monkeypatch, error):
    def broken(*args):
        raise error

    monkeypatch.setattr(path_folder, "summary", broken)
    outcome = proxfl("path", *arguments(data, "rows"), "--out", tmp_path / "new" / "results")
    assert outcome.code == (130 if error is KeyboardInterrupt else 2)
    assert list((tmp_path / "new").iterdir()) == []


OK = "--target progression --loss squared"
BAD = {
    "weight given": (f"{OK} --l1 0.1", "--l1 is the weight that the path runs along; leave it out"),
    "no such weight": (
        f"{OK} --sweep l2",
        "'sweep' must be one of l1, group_weight, elastic_net, nuclear",
    ),
    "one point": (f"{OK} --points 1", "'points' must be a whole number from 2 to 10000, got 1"),
    "no number": (f"{OK} --ratio half", "'ratio' must be a number between 1e-12 and 1, got 'half'"),
    "one fold": (f"{OK} --folds 1", "'folds' must be a whole number from 2 to 1000000000, got 1"),
    "many folds": (f"{OK} --folds 149", "folds must be at most 148, the rows of the largest site"),
    "other folds": (f"{OK} --by columns", "'by' must be one of rows, sites, got 'columns'"),
    "other rule": (f"{OK} --rule best", "'rule' must be one of 1se, min, got 'best'"),
    "other method": (f"{OK} --algorithm fedavg", "leave out --batch and --cohort"),
    "batch": (f"{OK} --batch 5", "leave out --batch and --cohort"),
    "matrix needed": (f"{OK} --sweep nuclear", "'nuclear' needs a model with several outputs"),
    "groups needed": (f"{OK} --sweep group-weight", "'group_weight' needs 'group' if the model"),
    "no prox": (f"{OK} --simplex", "l1 and simplex have no known joint prox"),
    "zero left out": (f"{OK} --box 1 2", "no weight leaves an empty model; the constraint must"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_nothing_is_written(data, tmp_path, name):
    told, words = BAD[name]
    outcome = proxfl("path", data / "diabetes", *told.split(), "--out", tmp_path / "results")
    assert outcome.code == 2 and outcome.out == ""
    assert words in outcome.err and outcome.err.startswith("proxfl path: ")
    assert outcome.err.rstrip()[-1] in ".?" and outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(data, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    outcome = proxfl("path", data / "diabetes", *OK.split(), "--out", tmp_path)
    assert outcome.code == 2 and "the folder is not empty" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_every_option_is_exercised_and_explained():
    words = {word for _, told in CASES.values() for word in told.split() if word[:2] == "--"}
    told = " ".join(proxfl("path", "--help").out.split())
    for option in Choice.table().values():
        assert f"--{option.key}" in words
        assert option.meaning in told.replace("- ", "-"), option.key
