"""Targets write whole files, repeat themselves, and judge claims by the data alone."""

import json

import numpy as np
import pandas as pd
import pytest

from proxfl.research.reproduce import ablation, bounds, claims, fig1, network, targets


@pytest.fixture
def small(monkeypatch):
    """Figure 1 on two draws and few rounds: enough to draw and to judge, whatever the verdict."""
    monkeypatch.setattr(fig1, "ROUNDS", {1: 40, 10: 20})
    monkeypatch.setattr(fig1, "curvature_at_end", lambda draw: 0.5)


def test_a_target_writes_data_figures_claims_and_a_report(small, tmp_path):
    found = targets.reproduce(["fig1"], tmp_path, True, "proxfl reproduce fig1 --quick")
    folder = tmp_path / "fig1"
    for name in ("data-quick.csv", "fig1-paper.png", "fig1-paper.svg", "fig1-calibrated.svg"):
        assert (folder / name).stat().st_size > 0
    assert json.loads((tmp_path / "claims.json").read_text()) == [c._asdict() for c in found]
    assert "<img" in (tmp_path / "report.html").read_text()
    first = {p.name: p.read_bytes() for p in folder.iterdir()}
    (folder / "data-quick.csv").unlink()
    targets.reproduce(["fig1"], tmp_path, True, "proxfl reproduce fig1 --quick")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == first


def curves(levels, rounds=(0, 50, 100), **labels):
    """Rows of a made-up run that falls to its level."""
    rows = []
    for seed, level in enumerate(levels):
        for r, optimality in zip(rounds, np.geomspace(1, level, len(rounds)), strict=True):
            rows.append(labels | {"seed": seed, "round": r, "optimality": optimality})
    return rows


def made_up(fedda_level):
    """A frame of Figure 1 in which only FedDA at tau = 10 is in question."""
    rows = []
    for panel in ("paper", "calibrated"):
        for tau in (1, 10):
            base = {"panel": panel, "tau": tau, "curvature": 1.0}
            dual = 1e-14 if tau == 1 else fedda_level
            for method, variant, level in (
                ("Algorithm 1", "", 1e-14),
                ("FedDA", "", dual),
                ("FedMid", "", 0.9),
                ("FedMid", "no server prox", 0.1),
                ("Fast-FedDA", "mu = 0.01 L", 0.1),
            ):
                rows += curves([level] * 4, **base, method=method, variant=variant)
        more = base | {"method": "Algorithm 1", "variant": "same eta_round"}
        rows += curves([1e-14] * 4, **more)
    return pd.DataFrame(rows)


@pytest.mark.parametrize("level, expected", [(1e-2, claims.HOLDS), (1e-14, claims.FAILS)])
def test_a_verdict_follows_the_data(level, expected):
    found = {c.name: c.verdict for c in fig1.claims(made_up(level))}
    assert found["FedDA stalls at tau = 10"] == expected


def test_every_verdict_is_one_of_three():
    for claim in fig1.claims(made_up(1e-2)):
        assert claim.verdict in (claims.HOLDS, claims.IN_PART, claims.FAILS)


def test_the_network_claim_follows_the_data():
    def frame(ours, dual):
        rows = []
        for method, level in (("Algorithm 1", ours), ("FedDA", dual)):
            for tau in (5, 10):
                for seed in range(3):
                    for r in range(0, 201, 10):
                        accuracy = level * r / 200
                        rows.append(
                            dict(method=method, tau=tau, theta=1e-4, seed=seed, round=r)
                            | dict(accuracy=accuracy, nonzeros=50_000, density=0.5, objective=1.0)
                        )
        return pd.DataFrame(rows)

    name = "MNIST: higher accuracy in fewer rounds"
    better = {c.name: c.verdict for c in network.claims(frame(0.99, 0.8))}
    worse = {c.name: c.verdict for c in network.claims(frame(0.8, 0.99))}
    assert better[name] == claims.HOLDS and worse[name] == claims.FAILS


def test_targets_that_need_no_files_have_what_the_command_calls():
    for module in (fig1, ablation, bounds, network):
        assert callable(module.compute) and callable(module.draw) and callable(module.claims)
