"""The case study runs from the raw table to the end, and prints what its page shows."""

import re
import sys

import jax
import pytest

from tests.docs.test_snippets import ROOT, tool

sys.path.insert(0, str(ROOT / "docs" / "tools"))  # whose scripts import one another
WORDS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?|[A-Za-z_]+")


def alike(shown, printed):
    """The same words, and numbers that agree in the first digits: the last are the machine's."""
    first, second = (WORDS.findall(text) for text in (shown, printed))
    number = lambda word: float(word) if word[-1].isdigit() else word
    assert len(first) == len(second), printed
    for one, other in zip(map(number, first), map(number, second), strict=True):
        assert one == (other if isinstance(other, str) else pytest.approx(other, rel=0.02)), printed


@pytest.mark.filterwarnings("default")  # as a reader has it
def test_the_page_shows_what_its_commands_print(tmp_path, monkeypatch):
    study = tool("case_study")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", study.WIDTH)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        printed = list(study.printed())
    shown = study.SHOWN.findall(study.PAGE.read_text())
    for one, other in zip(shown, printed, strict=True):
        alike(one, other)
    for name, path in study.PICTURES.items():
        assert (tmp_path / path).exists() and (study.PAGE.with_suffix("") / f"{name}.png").exists()
    held = {path.stem for path in study.PAGE.with_suffix("").iterdir()}
    assert held == study.PICTURES.keys()
