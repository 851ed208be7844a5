"""Tables and numbers on a terminal: nothing is cut off, and nothing looks more exact than it is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxfl.console.table import fitting, show
from proxfl.console.words import number


@pytest.mark.parametrize("wide", [4, 9, 28])
def test_as_many_columns_fit_as_are_shown_without_breaking_a_cell(wide, capsys):
    heads = ["column", "", *(f"site{k}" for k in range(40))]
    rows = [["a", "mean (sd)", *["x" * wide] * 40], ["b", "median", *["y"] * 40]]
    few = fitting(heads, rows, 3)
    whole = lambda text: len(text.splitlines()) == 4 + len(rows) and "…" not in text
    show("", heads[:few], [row[:few] for row in rows])
    assert whole(capsys.readouterr().out) and 3 < few < 40
    show("", heads[: few + 1], [row[: few + 1] for row in rows])
    assert not whole(capsys.readouterr().out)
    assert fitting(heads, rows, 41) == 41


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(2, 6))
def test_a_number_has_the_digits_that_count(value, digits):
    shown = number(value, digits)
    back = float(shown.replace(",", ""))
    assert back == float(f"{value:.{digits}g}") and shown != "-0"
    assert "e" not in shown or not 1e-4 <= abs(back) < 1e9
    assert number(math.inf) == "inf"
