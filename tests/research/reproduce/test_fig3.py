"""Figure 3's runs: done once each, never mixed, and one row per observed round."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest

from proxfl.data.mnist import Mnist, Pictures
from proxfl.engine.sweep import Swept
from proxfl.research.reproduce import fig3, network
from proxfl.research.reproduce.fig3 import Case, Settings
from proxfl.research.runs import where

SETTINGS = Settings(steps=2, fewer=2, every=1, seeds=2, batch=2, clients=2, train=40, test=4)
ALL = fig3.PAPER | {"settings": SETTINGS}
ONE = {"settings": SETTINGS, "taus": (1,), "thetas": (1e-4,)}


def pictures(rows, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (rows, 28, 28), np.uint8)
    return Pictures(images, rng.integers(0, 10, rows, np.int32))


@pytest.fixture
def digits(monkeypatch):
    monkeypatch.setattr(fig3, "mnist", lambda folder: Mnist(pictures(60), pictures(10)))


@pytest.fixture
def done(digits, monkeypatch):
    """The cases that were run, with a stand-in for running them."""
    ran = []

    def pretend(case, settings, shards, test):
        ran.append(case)
        names = ("accuracy", "loss", "penalty", "nonzeros")
        history = {name: np.tile(np.linspace(0.1, 0.9, 3), (2, 1)) / len(ran) for name in names}
        return Swept(np.arange(3), history, [], np.zeros(2, bool))

    monkeypatch.setattr(fig3, "run_case", pretend)
    return ran


def test_every_case_is_run_once(tmp_path, done):
    files = list(fig3.compute(tmp_path, **ALL | {"thetas": (1e-4, 1e-3)}))
    assert len(files) == len(set(files)) == len(set(done)) == 2 * 2 * 2
    assert all(path.is_file() for path in files)


def test_an_interrupted_computation_goes_on_where_it_stopped(tmp_path, done):
    first = next(fig3.compute(tmp_path, **ONE))
    before = first.read_bytes()
    files = list(fig3.compute(tmp_path, **ONE))
    assert [case.method for case in done] == list(fig3.METHODS)
    assert files[0] == first and first.read_bytes() == before


def test_runs_of_other_settings_are_not_mixed_in(tmp_path, done):
    list(fig3.compute(tmp_path, **ONE))
    with pytest.raises(ValueError, match="holds runs of other settings .* use another folder.$"):
        list(fig3.compute(tmp_path, **ONE | {"settings": dataclasses.replace(SETTINGS, steps=3)}))


@pytest.mark.parametrize("quick, cases", [(True, 2 * 2), (False, 2 * 2 * 4)])
def test_the_target_has_a_part_of_rows_for_every_case(tmp_path, done, quick, cases):
    total, parts = network.compute(quick, tmp_path)
    assert [len(part) for part in parts] == [2 * 3] * total
    assert total == len(done) == cases


def test_no_two_cases_share_a_file():
    cases = [
        Case(method, tau, theta)
        for method in fig3.METHODS
        for tau in fig3.TAUS
        for theta in (*fig3.PAPER["thetas"], 1.0000001e-4)
    ]
    assert len({case.file for case in cases}) == len(cases)


def test_all_seeds_have_shards_of_one_shape_that_hold_the_same_examples():
    train = pictures(2000)
    shards = fig3.federate(train, 10, 4)
    assert len({str(jax.tree.map(np.shape, shard)) for shard in shards}) == 1
    for images, labels, size in zip(*shards[0].examples, shards[0].size, strict=True):
        own = {image.tobytes() for image in np.asarray(images)[:size]}
        assert {image.tobytes() for image in np.asarray(images)} == own
        assert np.all(np.asarray(labels)[size:] == labels[0])


def test_the_quick_form_takes_the_first_examples(digits):
    cut = fig3.subset(fig3.mnist(None), SETTINGS)
    assert len(cut.train.labels) == 40 and len(cut.test.images) == 4


def test_a_real_run_gives_a_row_per_seed_and_observation(tmp_path, digits):
    with jax.enable_x64(False):
        path = next(fig3.compute(tmp_path, **ONE))
    frame = pd.read_csv(path)
    assert list(frame["round"]) == [0, 1, 2] * 2 and list(frame["seed"]) == [0] * 3 + [1] * 3
    assert set(frame["method"]) == {"Algorithm 1"} and frame["nonzeros"].max() <= 112_394
    assert frame["accuracy"].isin(np.arange(5) / 4).all()
    assert frame["loss"].nunique() == 6  # seeds differ


def test_the_figures_show_every_method_and_have_names_on_their_axes(tmp_path, done):
    frame = pd.concat(map(pd.read_csv, fig3.compute(tmp_path, **ALL)))
    by_round, by_weight = network.draw(frame).values()
    for ax in (*by_round.axes, *by_weight.axes):
        assert ax.get_ylabel()
    above, below = by_round.axes[:2], by_round.axes[2:]
    for ax in above:
        assert [line.get_label() for line in ax.get_lines()] == list(fig3.METHODS)
    paper = where(frame, theta=fig3.PAPER_THETA)
    for ax, (_, rows) in zip(below, paper.groupby("tau"), strict=True):
        ours, theirs = (where(rows, method=m).groupby("round")["accuracy"] for m in fig3.METHODS)
        drawn = ax.get_lines()[0].get_ydata()
        assert np.allclose(drawn, 100 * (ours.median() - theirs.median()))  # all seeds are equal
    assert len(by_weight.axes[0].get_lines()) == 4
    for i, figure in enumerate((by_round, by_weight)):
        figure.savefig(tmp_path / f"{i}.svg")
    assert len(network.CLAIMS[0].measure(frame)) == 2


def learning(ends):
    """Runs of both methods whose accuracy rises evenly from 0 to 1, by tau and theta."""
    parts = []
    for (tau, theta), end in ends.items():
        for method in fig3.METHODS:
            rows = {"round": np.arange(end + 1), "accuracy": np.linspace(0, 1, end + 1)}
            about = {"method": method, "tau": tau, "theta": theta, "seed": 0}
            parts.append(pd.DataFrame(rows).assign(**about, loss=0.0, penalty=0.0))
    return pd.concat(parts)


def test_weights_are_compared_at_the_last_round_at_which_all_were_observed():
    runs = learning({(5, 1e-4): 40, (5, 1.0): 16, (10, 1e-4): 20, (10, 1.0): 9})
    last = network.at_common_end(runs[(runs["tau"] == 5) | (runs["round"] % 2 == 0)])
    assert len(last) == 2 * 2 * 2 and set(last["round"]) == {8}


def test_what_rises_evenly_gains_a_quarter_in_the_last_quarter():
    gains = network.gained(learning({(5, 1e-4): 400, (10, 1e-4): 200, (5, 1.0): 4}))
    assert list(gains) == [f"{m}, tau = {tau}" for m in fig3.METHODS for tau in fig3.TAUS]
    assert np.allclose(gains, 25)
