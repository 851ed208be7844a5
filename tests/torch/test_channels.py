"""The example that removes whole channels."""

import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch" / "whole_channels.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def test_the_smaller_module_gives_the_scores_of_the_larger(example):
    module = example["network"](5).double()
    with torch.no_grad():
        module[0].weight[[0, 3]] = 0
    small, rows = example["smaller"](module).double(), torch.randn(7, 1, 8, 8).double()
    assert small[0].out_channels == 3 and small[4].in_features == 12
    torch.testing.assert_close(small(rows), module(rows), rtol=1e-12, atol=1e-12)


def test_it_runs_and_exports_what_it_trained(example, tmp_path):
    (found,) = example["main"]((0.0,), rows=6, rounds=2, out=tmp_path)
    assert found["channels"] == example["CHANNELS"]
    assert found["largest difference of a score"] < 1e-5
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".svg"}
