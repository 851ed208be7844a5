"""Targets write whole files, repeat themselves, and judge claims by the data alone."""

import json

import pytest

from proxfl.research.reproduce import fig1, targets


@pytest.fixture
def small(monkeypatch):
    """Figure 1 on three draws and few rounds: enough to draw and to judge, whatever the verdict."""
    monkeypatch.setattr(fig1, "ROUNDS", {1: 40, 10: 20})


def test_a_target_writes_data_figures_claims_and_a_report(small, tmp_path):
    found = targets.reproduce(["fig1"], tmp_path, True, "proxfl reproduce fig1 --quick")
    folder = tmp_path / "fig1"
    for name in ("data-quick.csv", "fig1-paper.png", "fig1-paper.svg", "fig1-calibrated.svg"):
        assert (folder / name).stat().st_size > 0
    written = json.loads((tmp_path / "claims.json").read_text())
    assert [row["verdict"] for row in written["claims"]] == [claim.verdict for claim in found]
    told = (tmp_path / "claims.md").read_text()
    assert all(claim.quote in told and claim.rule in told for claim in found)
    assert all(name in told for name in written["found besides"])
    assert "<img" in (tmp_path / "report.html").read_text()
    first = {p.name: p.read_bytes() for p in folder.iterdir()}
    (folder / "data-quick.csv").unlink()
    targets.reproduce(["fig1"], tmp_path, True, "proxfl reproduce fig1 --quick")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == first
