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
    kept = example["norms"](module) > 0
    small, rows = example["smaller"](module, kept), torch.randn(7, 1, 8, 8).double()
    assert small[0].out_channels == 3 and small[4].in_features == 12
    torch.testing.assert_close(small(rows), module(rows), rtol=1e-12, atol=1e-12)


def test_what_it_exports_is_smaller_and_scores_as_what_it_trained(example, tmp_path):
    """With a weight under which channels vanish; the scores are those of the file, read again."""
    found = example["main"]((0.1,), (0,), rows=6, rounds=20, out=tmp_path)
    ours = [row for row in found if row["method"] == "Algorithm 1"]
    whole, few = (row["channels"] for row in ours)
    assert whole == example["CHANNELS"] > few
    assert all(row["largest difference of a score"] < 1e-5 for row in ours)
    [(sizes, files)] = [
        ({p.stat().st_size for p in folder.iterdir()}, len(list(folder.iterdir())))
        for folder in (tmp_path / "whole-channels").iterdir()
    ]
    assert files == len(sizes) == 2  # a smaller network is a smaller file
