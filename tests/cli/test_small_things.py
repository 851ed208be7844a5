"""What users met: folders of paths, stray files, pipes, LIBSVM without a target, identifiers."""

import json
import logging
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from proxfl.cli.main import main
from proxfl.cli.shared import version
from tests.cli import world
from tests.cli.fits import CASES
from tests.cli.world import proxfl


@pytest.fixture(scope="module")
def path_folder(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("path") / "out"
    told = ["path", data / "cancer", "--target", "benign", "--loss", "logistic", "--standardise"]
    outcome = proxfl(*told, "--points", "3", "--folds", "2", "--tol", "1e-3", "--out", folder)
    assert outcome.code == 0, outcome.err
    return folder


def test_the_folder_of_a_path_stands_for_its_model(path_folder, data):
    assert proxfl("inspect", path_folder).out == proxfl("inspect", path_folder / "model").out
    rows = data / "cancer" / "site0.csv"
    assert proxfl("predict", path_folder, rows).out == (
        proxfl("predict", path_folder / "model", rows).out
    )
    assert proxfl("report", path_folder).out == f"Report: {path_folder / 'model' / 'report.html'}\n"
    assert proxfl("evaluate", path_folder, data / "cancer", "--draws", "0").code == 0


def test_a_path_tells_the_area_beside_loss_and_accuracy(path_folder):
    told = json.loads((path_folder / "path.json").read_text())
    assert {"left_out_loss", "left_out_accuracy", "left_out_auc"} <= told.keys()
    assert 0.5 < told["left_out_auc"] <= 1
    assert "auc" in pd.read_csv(path_folder / "folds.csv").columns


def test_the_terminal_sorts_as_the_report_and_says_which_class_is_positive(fitted):
    folder = fitted("l1")[1]
    shown, page = proxfl("inspect", folder).out, (folder / "report.html").read_text()
    model = json.loads((folder / "model.json").read_text())
    scale = json.loads((folder / "manifest.json").read_text())["agreement"]["scale"]
    unit = dict(zip(model["features"], scale, strict=True))
    sizes = [abs(entry["value"]) * unit[entry["feature"]] for entry in model["nonzeros"]]
    assert sizes == sorted(sizes, reverse=True)
    table = page[page.index("<h2>What was found") :]
    names = [entry["feature"] for entry in model["nonzeros"]]
    for text in (shown, table):
        places = [text.index(f"{name} ") if text is shown else text.index(f">{name}<")
                  for name in names]  # fmt: skip
        assert places == sorted(places)
    assert "A positive score speaks for benign = yes." in shown
    assert "A positive score speaks for benign = yes." in page


def test_a_report_has_outcomes_and_missing_values_by_site(data, fitted):
    sites = json.loads((fitted("l1")[1] / "manifest.json").read_text())["sites"]
    for site in sites:
        held = pd.read_csv(data / "cancer" / f"{site['name']}.csv")["benign"]
        assert site["outcome"] == held.value_counts().to_dict()
    page = (fitted("l1")[1] / "report.html").read_text()
    assert "benign: no" in page and "benign: yes" in page
    sites = json.loads((fitted("groups")[1] / "manifest.json").read_text())["sites"]
    holes = [pd.read_csv(data / "holes" / f"{s['name']}.csv").isna().sum().sum() for s in sites]
    assert [site["filled"] for site in sites] == holes and sum(holes) == 2
    assert "values filled in" in (fitted("groups")[1] / "report.html").read_text()


def test_a_stray_file_in_a_folder_is_passed_over_with_a_word(tmp_path, caplog):
    folder = world.write(tmp_path / "data", world.diabetes().iloc[:60], 2)
    for name in ("README.md", "README.txt", "notes.docx"):
        (folder / name).write_text("Hello")
    told = ["train", folder, "--target", "progression", "--loss", "squared", "--l1", "1"]
    with caplog.at_level(logging.WARNING, "proxfl"):
        assert proxfl(*told, "--out", tmp_path / "out").code == 0
    words = [record.getMessage() for record in caplog.records]
    assert sum("is passed over: it is no data file." in word for word in words) == 3
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").write_text("Hello")
    outcome = proxfl("train", tmp_path / "empty", "--target", "y", "--loss", "squared")
    assert outcome.code == 2 and "there is no file in this folder" in outcome.err


@pytest.mark.parametrize("command", ["predict", "inspect"])
def test_output_that_nobody_reads_ends_quietly(fitted, data, command):
    """As with `| head`: no traceback, no sentence."""
    file = [str(data / "cancer" / "site0.csv")] if command == "predict" else []
    code = (
        "import os, sys; from proxfl.cli.main import main; r, w = os.pipe(); os.close(r); "
        f"sys.stdout = os.fdopen(w, 'w'); sys.exit(main({[command, str(fitted('l1')[1]), *file]}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300)
    lines = [line for line in ended.stderr.splitlines() if not line.startswith(b"The target is")]
    assert lines == [] and ended.returncode in (1, 141)  # rich, which draws tables, says 1


def test_libsvm_needs_no_target(data, tmp_path):
    told = CASES["given steps"][1].replace("--target y ", "").split()
    outcome = proxfl("train", data / "sparse", *told, "--out", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads((tmp_path / "out" / "model.json").read_text())["target"] == "y"
    named = proxfl("train", data / "diabetes", *told, "--out", tmp_path / "other")
    assert named.code == 2 and "key 'target' is missing" in named.err


def test_numbers_that_only_name_rows_are_pointed_out(tmp_path, caplog):
    table = world.diabetes().iloc[:60]
    table.insert(0, "patient", np.arange(1000, 1060))
    folder = world.write(tmp_path / "data", table, 2)
    told = ["train", folder, "--target", "progression", "--loss", "squared", "--l1", "1"]
    with caplog.at_level(logging.WARNING, "proxfl"):
        assert proxfl(*told, "--out", tmp_path / "a").code == 0
        assert "a number of its own in 'patient'" in caplog.text
        caplog.clear()
        assert proxfl(*told, "--exclude", "patient", "--out", tmp_path / "b").code == 0
    assert "patient" not in caplog.text


@pytest.mark.parametrize("driver", [True, False])
def test_the_version_says_which_device_and_what_a_gpu_needs(driver, tmp_path, monkeypatch, capsys):
    (tmp_path / "version").touch()
    monkeypatch.setattr(version, "DRIVER", tmp_path / ("version" if driver else "none"))
    with pytest.raises(SystemExit) as told:
        main(["--version"])
    said = capsys.readouterr().out
    assert told.value.code == 0 and re.match(r"proxfl \S+, JAX \S+, on the CPU\.\n", said)
    assert ("pip install 'proxfl[cuda]'" in said) == driver


def test_support_of_gpus_that_finds_none_is_one_line_and_no_traceback():
    log, seen = logging.getLogger("of a plugin"), []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(logging.Formatter().format(record))
    log.addHandler(handler)
    log.addFilter(version.without_traceback)
    try:
        raise RuntimeError("operation cuInit(0) failed: Unknown CUDA error 303.\nand more")
    except RuntimeError:
        log.exception("Exception when calling %s.initialize()", "a plugin")
    log.warning("of something else, %s", "as it is")
    words = "JAX finds no GPU that it can use, and computes on the CPU: "
    assert seen == [
        f"{words}operation cuInit(0) failed: Unknown CUDA error 303.",
        "of something else, as it is",
    ]


def test_a_gpu_is_named():
    cards = [SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")] * 2
    assert version.in_words(cards) == "on 2 x NVIDIA H200"
