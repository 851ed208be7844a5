"""Targets write whole files, repeat themselves, and judge claims by the data alone."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxfl.drawing import plots
from proxfl.errors import InputError
from proxfl.research.reproduce import fig1, fig1_runs, targets
from proxfl.research.reproduce.claims import Claim, Finding, found, judge
from proxfl.research.reproduce.settings import keep
from proxfl.research.runs import final, rounds_to, where


class Halving:
    """An experiment in small: what is halved each round is lower at the end."""

    CAPTIONS = {"halving": "One line per draw."}
    CLAIMS = (
        Claim(
            "it falls",
            "Section 0",
            "The value falls.",
            "the last value",
            "in a draw, it is below 1",
            lambda frame: pd.DataFrame({"last": final(frame, "value")}),
            lambda q: {"lower": q["last"] < 1},
        ),
    )
    FINDINGS = (Finding("It starts at 1", "the first", lambda f: where(f, round=0)[["value"]]),)
    __doc__ = "Values by round."

    def settings(self, quick):
        return {"draws": 2 if quick else 20}

    def compute(self, quick, folder):
        draws = self.settings(quick)["draws"]
        rows = {"round": range(5), "value": 0.5 ** np.arange(5.0)}
        return draws, (pd.DataFrame(rows).assign(seed=seed) for seed in range(draws))

    def draw(self, frame):
        figure, (ax,) = plots.panels(1)
        ax.plot(frame["round"], frame["value"])
        return {"halving": figure}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(targets.TARGETS, "halving", "halving")
    monkeypatch.setitem(sys.modules, "halving", Halving())


def test_a_target_writes_data_figures_claims_and_a_report(small, tmp_path):
    found = targets.reproduce(["halving"], tmp_path, False, "proxfl reproduce halving")
    folder = tmp_path / "halving"
    for name in ("data.csv", "settings.json", "halving.png", "halving.svg"):
        assert (folder / name).stat().st_size > 0
    written = json.loads((tmp_path / "claims.json").read_text())
    assert [row["verdict"] for row in written["claims"]] == [found[0].verdict] == ["holds"]
    told = (tmp_path / "claims.md").read_text()
    assert all(claim.quote in told and claim.rule in told for claim in found)
    assert all(name in told for name in written["found besides"])
    assert "<img" in (tmp_path / "report.html").read_text()
    first = {p.name: p.read_bytes() for p in folder.iterdir()}
    (folder / "data.csv").unlink()
    targets.reproduce(["halving"], tmp_path, False, "proxfl reproduce halving")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == first


COMMITTED = Path(__file__).parents[3] / "results"


@pytest.mark.parametrize("name", targets.TARGETS)
def test_committed_verdicts_and_findings_follow_from_committed_data(name):
    """By the rules as they are now; the data are those of the settings as they are now."""
    kind = "sites" if name == "sites" else "reproduce"
    module = importlib.import_module(targets.TARGETS[name])
    written = json.loads((COMMITTED / kind / "claims.json").read_text())
    frame = targets.table(module, name, COMMITTED / kind / name, False)
    rows = {row["name"]: row for row in written["claims"]}
    for claim in module.CLAIMS:
        judged = judge(claim, frame)._asdict()
        judged["parts"] = [part._asdict() for part in judged["parts"]]
        assert json.loads(json.dumps(judged)) == rows[claim.name]
    for key, finding in found(module.FINDINGS, frame).items():
        assert finding == written["found besides"][key]


def test_fig1_keeps_the_first_round_at_each_level_as_finely_as_it_observed():
    seen = pd.DataFrame({"tau": 10, "seed": 0, "round": range(2001)})
    table = seen.assign(optimality=0.99 ** seen["round"].to_numpy(float))
    kept = table[fig1_runs.drawn(table) | fig1_runs.arrives(table)]
    for level in fig1_runs.LEVELS:
        assert rounds_to(kept, level)[0] == rounds_to(table, level)[0]
    assert len(kept) < len(table) / 10


def test_fig1_draws_medians_through_rounds_of_which_all_draws_are_kept():
    seen = pd.DataFrame({"tau": 10, "round": range(2001), "nonzeros": 1.0})
    tables = [
        seen.assign(
            seed=seed, method=name, variant="" if i < 3 else "mu", panel=panel, tau=tau
        ).assign(optimality=(0.99 - seed / 1000) ** seen["round"].to_numpy(float))
        for panel in ("paper", "calibrated")
        for tau in fig1_runs.ROUNDS
        for i, name in enumerate(fig1_runs.METHODS)
        for seed in range(2)
    ]
    table = pd.concat(tables, ignore_index=True)
    late = table["seed"] * 1.0 + table["round"] == 77  # a row that one draw has alone
    for figure in fig1.draw(table[fig1_runs.drawn(table) | late]).values():
        for line in (line for ax in figure.axes for line in ax.get_lines()):
            assert len(line.get_xdata()) > 2 and 77 not in line.get_xdata()
            assert 76 not in line.get_xdata()


@pytest.mark.parametrize("stamp", [None, "{}\n"])
def test_data_of_other_or_unknown_settings_are_refused(tmp_path, stamp):
    (tmp_path / "data-quick.csv").write_text("panel\n")
    if stamp is not None:
        (tmp_path / "settings-quick.json").write_text(stamp)
    with pytest.raises(InputError, match="use another folder"):
        targets.table(fig1, "fig1", tmp_path, True)


def test_a_stamp_is_written_once_and_before_there_are_data(tmp_path):
    path = tmp_path / "settings.json"
    keep(path, {"rounds": 3})
    keep(path, {"rounds": 3}, made=True)
    with pytest.raises(InputError, match="settings.json"):
        keep(path, {"rounds": 4})


@pytest.mark.parametrize("path", targets.TARGETS.values(), ids=targets.TARGETS)
def test_the_quick_form_is_told_from_the_whole_one(path):
    settings = importlib.import_module(path).settings
    assert json.dumps(settings(True)) != json.dumps(settings(False))
