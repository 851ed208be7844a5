"""Every example runs, and shows what it says it shows."""

import runpy
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from safetensors.numpy import load_file

FOLDER = Path(__file__).parent.parent.parent / "examples"


@cache  # which each test of an example shares
def outcome(name):
    """What an example gives, under the rules of promotion that its readers have."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        return runpy.run_path(str(FOLDER / name))["main"]()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("plot_*.py")), ids=lambda p: p.stem)
def test_it_runs(path):
    assert outcome(path.name) is not None


def test_first_steps_draws_three_curves():
    figure = outcome("plot_first_steps.py")
    assert isinstance(figure, Figure) and len(figure.axes[0].lines) == 3


def test_the_low_rank_example_finds_the_rank_of_the_truth():
    assert outcome("plot_low_rank.py").history["rank"][-1] == 2


def test_the_equinox_network_keeps_only_the_inputs_that_matter(tmp_path):
    result = outcome("plot_equinox.py")
    result.export(tmp_path / "network.safetensors")
    weight = load_file(tmp_path / "network.safetensors")["layers/0/weight"]
    assert np.flatnonzero(weight.any(axis=0)).tolist() == [0, 1]


def test_the_network_keeps_the_inputs_that_matter_and_drops_others():
    kernel = outcome("plot_own_network.py").model.params["first"]["kernel"]
    used = np.flatnonzero(np.abs(kernel).sum(axis=1))
    assert {0, 1} <= set(used) and len(used) < 10
