"""Results of the first edition still open; a file of today that lost its digest is none of them.

`first_edition/` was written by the first edition, and so were its predictions of the rows there:
`proxfl train data --target y --loss logistic --l1 0.05 --missing mean --standardise`.
"""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxfl.train import first
from tests.cli.world import proxfl

HERE = Path(__file__).parent / "first_edition"
FILES = ("model.json", "manifest.json", "history.jsonl", "model.safetensors")


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    for name in FILES:
        shutil.copy(HERE / name, folder)
    return folder


@pytest.mark.parametrize("named", [".", "model.json"])
def test_predictions_are_those_that_the_first_edition_made(named, old, tmp_path):
    out = tmp_path / "found.csv"
    done = proxfl("predict", old / named, HERE / "rows.csv", "--proba", "--out", out)
    assert done.code == 0, done.err
    found, wanted = pd.read_csv(out), pd.read_csv(HERE / "predictions.csv")
    assert list(found) == list(wanted) and list(found["prediction"]) == list(wanted["prediction"])
    for column in list(found)[1:]:
        np.testing.assert_allclose(found[column], wanted[column], rtol=1e-14)


@pytest.mark.parametrize("words", [("inspect",), ("report",), ("evaluate", HERE / "rows.csv")])
def test_commands_open_them_and_say_once_that_nothing_protects_them(words, old, caplog):
    command, *more = words
    with caplog.at_level(logging.WARNING):
        done = proxfl(command, old, *more)
    assert done.code == 0 and not done.err, done.err
    (said,) = caplog.messages
    assert (
        said.startswith(str(old / "model.json")) and "first edition, which kept no digests" in said
    )


@pytest.mark.parametrize("name", FILES[:2])
def test_a_file_of_today_whose_digest_was_cut_is_not_taken_for_an_old_one(name, fitted, tmp_path):
    """Nor with any other of its keys."""
    folder = shutil.copytree(fitted("l1")[1], tmp_path / "new")
    held = json.loads((folder / name).read_text())
    del held["digest"]
    newer = held.keys() - (first.MODEL if name == FILES[0] else first.DEPLOYED)
    assert len(newer) > 2
    for cut in [None, *held]:
        left = {key: value for key, value in held.items() if key != cut}
        (folder / name).write_text(json.dumps(left))
        done = proxfl("report", folder)
        assert done.code == 2 and f"{name}: it does not fit its digest" in done.err


DAMAGE = {
    "no manifest": lambda f: (f / "manifest.json").unlink(),
    "no history": lambda f: (f / "history.jsonl").unlink(),
    "a round too few": lambda f: edited(
        f / "history.jsonl", lambda t: t[: t[:-1].rindex("\n") + 1]
    ),
    "another coefficient": lambda f: edited(
        f / "model.json", lambda t: t.replace("1.06", "1.07", 1)
    ),
    "another feature": lambda f: edited(f / "model.json", lambda t: t.replace('"a"', '"A"', 1)),
    "no certificate": lambda f: edited(f / "model.json", lambda t: cut(t, "certificate")),
    "a certificate that is a number": lambda f: edited(
        f / "model.json", lambda t: json.dumps(json.loads(t) | {"certificate": 5})
    ),
    "options of nobody": lambda f: edited(f / "manifest.json", lambda t: t.replace('"l1"', '"l0"')),
    "a ledger that is a list": lambda f: edited(
        f / "manifest.json", lambda t: json.dumps(json.loads(t) | {"ledger": [1]})
    ),
}


def edited(path, edit):
    path.write_text(edit(path.read_text()))


def cut(text, key):
    held = json.loads(text)
    del held[key]
    return json.dumps(held)


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_does_not_go_together_in_them_is_refused_by_name(damage, old):
    DAMAGE[damage](old)
    done = proxfl("report", old)
    assert done.code == 2 and str(old) in done.err and "Traceback" not in done.err
    assert len(done.err.splitlines()) == 1
