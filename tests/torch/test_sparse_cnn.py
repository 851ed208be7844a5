"""The example of a sparse network on MNIST, on a few pictures made here."""

import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.data.mnist import Mnist, Pictures

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch" / "sparse_cnn.py"


@pytest.fixture(scope="module")
def example():
    found = runpy.run_path(str(EXAMPLE))
    rng = np.random.default_rng(0)
    drawn = lambda n: Pictures(
        rng.integers(0, 256, (n, 28, 28)).astype(np.uint8), (np.arange(n) % 10).astype(np.int32)
    )
    found["pictures"].__globals__["mnist"] = lambda: Mnist(drawn(2200), drawn(50))
    return found


def test_all_methods_keep_as_many_weights(example, tmp_path):
    found = example["main"]((0.02,), (0.05,), (0,), rounds=6, rows=30, out=tmp_path)
    whole, *others = found
    assert {row["weights left"] for row in others} == {others[0]["weights left"]}
    assert 0 < others[0]["weights left"] < whole["weights left"] == 20424
    assert (tmp_path / "sparse-cnn.json").exists() and (tmp_path / "sparse-cnn.png").exists()


def test_pruning_keeps_the_largest_and_the_constraint_leaves_them_room(example):
    model = px.Tree({"a.weight": np.array([-3, -2, -1, 0.5, 1.5, 0.1]), "a.bias": np.ones(2)})
    few = example["pruned"](model, 2)
    assert few.params["a.weight"].tolist() == [-3, -2, 0, 0, 0, 0]
    moved = example["only_where"](few).prox(
        px.Tree({"a.weight": jnp.ones(6), "a.bias": 2 * jnp.ones(2)}), 1.0
    )
    assert moved.params["a.weight"].tolist() == [1, 1, 0, 0, 0, 0]
    assert moved.params["a.bias"].tolist() == [2, 2]
