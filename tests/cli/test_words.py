"""Names from outside change no result, and are shown as what they are: harmless text."""

import csv
import io
import json
import logging
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from proxfl.console.log import logger
from proxfl.console.words import csv_cell, printable
from proxfl.report import training
from tests import hostile
from tests.cli.world import proxfl
from tests.outcomes import soak

FEATURES, SITES, ROWS = 5, 2, 24
NAMED = FEATURES + 3 + SITES  # in one federation: columns, target, two labels, files
PLAIN = "--loss logistic --l1 0.02 --tol 1e-5".split()


class Names(NamedTuple):
    features: list[str]
    target: str
    labels: list[str]  # in order
    files: list[str]


USUAL = Names(["a", "b", "c", "d", "e"], "kind", ["no", "yes"], ["north", "south"])


def hostile_names(seed: int) -> Names:
    *features, target, low, high = hostile.names(seed, FEATURES + 3)
    return Names(features, target, sorted([low, high]), hostile.file_names(seed, SITES))


def write(folder, names: Names):
    """The same numbers under any names."""
    folder.mkdir()
    rng, files = np.random.default_rng(0), []
    for stem in names.files:
        A = rng.normal(size=(ROWS, FEATURES))
        y = A[:, 0] - A[:, 1] + rng.normal(size=ROWS) > 0
        table = pd.DataFrame(A, columns=names.features)
        table[names.target] = [names.labels[int(v)] for v in y]
        files.append(folder / f"{stem}.csv")
        with files[-1].open("w", newline="") as file:
            table.to_csv(file, index=False, quoting=csv.QUOTE_NONNUMERIC)
    return files


class Found(NamedTuple):
    """What commands make of a federation, names aside."""

    model: dict[str, Any]
    history: list[list[float]]  # without the bytes sent: names are among them
    predictions: np.ndarray
    weights: list[float]


def work(folder, names: Names, drawn: bool = False, path: bool = False) -> Found:
    files = write(folder, names)
    train, along = folder / "train", folder / "path"
    target = f"--target={names.target}"
    commands = [
        ["train", *files, target, *PLAIN, "--out", train],
        ["inspect", train],
        ["report", train],
        ["predict", train, files[0], "--proba"],
    ]
    sweep = "--loss logistic --points 2 --folds 2 --tol 1e-3 --rule min".split()
    commands += [["path", *files, target, *sweep, "--out", along]] if path else []
    told = {command[0]: proxfl(*command, drawn=drawn) for command in commands}
    for name, outcome in told.items():
        assert outcome.code == 0, (name, outcome.err)
        assert hostile.visible(outcome.out) and hostile.visible(outcome.err), name
    assert hostile.visible((train / "report.html").read_text())
    model = json.loads((train / "model.json").read_text())
    assert (model["features"], model["target"]) == (names.features, names.target)
    assert model["classes"] == names.labels
    history = map(json.loads, (train / "history.jsonl").read_text().splitlines())
    rows = list(csv.reader(io.StringIO(told["predict"].out)))
    shown = [csv_cell(label) for label in names.labels]
    label = lambda text: float(shown.index(text))
    weights = pd.read_csv(along / "path.csv")["weight"].tolist() if path else []
    return Found(
        {key: model[key] for key in ("coef", "intercept", "certificate")},
        [[line["objective"], line["optimality"]] for line in history],
        np.array([[label(row[0]), *map(float, row[1:])] for row in rows[1:]]),
        weights,
    )


def same(one: Found, other: Found) -> None:
    assert one.model == other.model and one.weights == other.weights
    assert one.history == other.history
    np.testing.assert_array_equal(one.predictions, other.predictions)


def test_hostile_names_change_no_result(tmp_path):
    usual = work(tmp_path / "usual", USUAL, path=True)
    for seed in range(4):
        first = seed == 0
        found = work(tmp_path / str(seed), hostile_names(seed), drawn=first, path=first)
        same(found, usual if first else usual._replace(weights=[]))


@pytest.mark.soak
def test_five_hundred_hostile_names_change_no_result(tmp_path):
    usual = work(tmp_path / "usual", USUAL, path=True)

    def run(seeds):
        for seed in seeds:
            same(work(tmp_path / str(seed), hostile_names(seed), drawn=True, path=True), usual)
        return Counter(
            {"names": len(seeds) * NAMED, "federations with the same result": len(seeds)}
        )

    soak("words", range(-(-500 // NAMED)), 1, run)


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "\u202ebac", "a\x00", "\udcff", "\x9b31m"])
def test_what_a_terminal_would_obey_is_spelt(text):
    assert hostile.visible(printable(text), newline=False)
    assert printable(text) != text


def test_what_is_long_is_shortened_in_the_middle():
    text = "a" * 5000 + "z" * 5000
    assert len(printable(text, 60)) == 60 and printable(text, 60).startswith("aaa")
    assert printable(text, 60).endswith("zzz") and "…" in printable(text, 60)
    assert printable("as it is: 12 é 名", 60) == "as it is: 12 é 名"


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_in_a_table_is_a_formula(text):
    assert csv_cell(text)[0] not in "=+-@\t\r"


@pytest.mark.parametrize("value", [-1, -0.5, "+", "-", "plain", "1-2", None])
def test_numbers_and_plain_texts_stay_as_they_are_in_a_table(value):
    assert csv_cell(value) == value


def test_a_log_has_one_line_for_each_record(caplog):
    log = logger("proxfl.deploy")
    try:
        raise ValueError("\x1b[31mred")
    except ValueError:
        log.exception("Site %s says %s", "a\nb", "\u202e")
    (record,) = caplog.records
    assert record.getMessage() == r"Site a\nb says \u202e"
    assert hostile.visible(logging.Formatter().format(record))


def test_a_report_that_cannot_be_drawn_costs_nothing_else(tmp_path, monkeypatch, caplog):
    def broken(*args):
        raise RuntimeError("no fonts\n\x1b[31m")

    files = write(tmp_path / "data", USUAL)
    monkeypatch.setattr(training, "page", broken)
    outcome = proxfl("train", *files, "--target=kind", *PLAIN, "--out", tmp_path / "out")
    assert outcome.code == 0 and "report.html" not in outcome.out
    (record,) = caplog.records
    assert "but not all of their report: RuntimeError: no fonts" in record.getMessage()
    assert hostile.visible(record.getMessage(), newline=False)
    assert proxfl("inspect", tmp_path / "out").code == 0


def test_an_error_about_a_hostile_file_is_one_line(tmp_path):
    outcome = proxfl("train", tmp_path / "a\nb\x1b[2J.csv", "--target=y", "--loss=squared")
    assert outcome.code == 2 and outcome.err.count("\n") == 1 and hostile.visible(outcome.err)
