"""Figure 3's runs: done once each, never mixed, and one row per observed round."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from proxfl.algorithms.fedda import FedDA
from proxfl.data.mnist import Mnist, Pictures
from proxfl.engine.result import Result
from proxfl.engine.round import Run
from proxfl.research.reproduce import fig3, network
from proxfl.research.reproduce.fig3 import Case, Settings

SETTINGS = Settings(rounds=2, every=1, batch=2, clients=2, train=40, test=4)
ALL = fig3.PAPER | {"settings": SETTINGS}
ONE = {"settings": SETTINGS, "seeds": (0,), "taus": (1,), "thetas": (1e-4,)}


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
        history = {
            name: np.linspace(0.1, 0.9, 3)
            for name in ("accuracy", "loss", "penalty", "seconds", "bytes_up", "nonzeros")
        }
        history["round"] = np.arange(3)
        run = Run(None, None, jnp.zeros((), jnp.int32), jax.random.key(0))
        return Result(np.zeros(4), history, run, FedDA(1.0), False, 0, 0, 0.0)

    monkeypatch.setattr(fig3, "run_case", pretend)
    return ran


def test_every_case_is_run_once(tmp_path, done):
    files = list(fig3.compute(tmp_path, **ALL | {"seeds": (0, 1), "thetas": (1e-4, 1e-3)}))
    assert len(files) == len(set(files)) == len(set(done)) == 2 * 2 * 2 * 2
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
        list(fig3.compute(tmp_path, **ONE | {"settings": dataclasses.replace(SETTINGS, rounds=3)}))


@pytest.mark.parametrize("quick, runs", [(True, 2 * 2), (False, 2 * 3 * 2 * 4)])
def test_the_target_has_a_part_of_rows_for_every_run(tmp_path, done, quick, runs):
    total, parts = network.compute(quick, tmp_path)
    assert [len(part) for part in parts] == [3] * total
    assert total == len(done) == runs


def test_no_two_cases_share_a_file():
    cases = [
        Case(method, tau, theta, seed)
        for method in fig3.METHODS
        for tau in fig3.TAUS
        for theta in (*fig3.PAPER["thetas"], 1.0000001e-4)
        for seed in range(12)
    ]
    assert len({case.file for case in cases}) == len(cases)


def test_all_seeds_have_shards_of_one_shape_that_hold_the_same_examples():
    train = pictures(2000)
    shards = [fig3.federate(train, 10, seed) for seed in range(4)]
    assert len({str(jax.tree.map(np.shape, shard)) for shard in shards}) == 1
    for images, labels, size in zip(*shards[0].examples, shards[0].size, strict=True):
        own = {image.tobytes() for image in np.asarray(images)[:size]}
        assert {image.tobytes() for image in np.asarray(images)} == own
        assert np.all(np.asarray(labels)[size:] == labels[0])


def test_the_quick_form_takes_the_first_examples(digits):
    cut = fig3.subset(fig3.mnist(None), SETTINGS)
    assert len(cut.train.labels) == 40 and len(cut.test.images) == 4


def test_a_real_run_gives_a_row_per_observation_that_adds_up(tmp_path, digits):
    with jax.enable_x64(False):
        path = next(fig3.compute(tmp_path, **ONE))
    frame = pd.read_csv(path)
    assert list(frame["round"]) == [0, 1, 2] and set(frame["method"]) == {"Algorithm 1"}
    np.testing.assert_allclose(frame["objective"], frame["loss"] + frame["penalty"])
    np.testing.assert_allclose(frame["density"] * 112_394, frame["nonzeros"])
    assert frame["accuracy"].isin(np.arange(5) / 4).all()
    assert list(frame["bytes_up"]) == [0, 4 * 112_394, 8 * 112_394]


def test_the_figures_show_every_method_and_have_names_on_their_axes(tmp_path, done):
    frame = pd.concat(map(pd.read_csv, fig3.compute(tmp_path, **ALL)))
    curves, sparsity = network.draw(frame).values()
    for ax in (*curves.axes[::2], *sparsity.axes):
        assert ax.get_ylabel()
    for ax in curves.axes:
        assert [line.get_label() for line in ax.get_lines()] == list(fig3.METHODS)
    assert len(sparsity.axes[0].get_lines()) == 4
    for i, figure in enumerate((curves, sparsity)):
        figure.savefig(tmp_path / f"{i}.svg")
