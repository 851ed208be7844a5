"""The theory target: its table holds what the theorems say, and its findings follow the data."""

import numpy as np
import pandas as pd
import pytest

from proxfl.precision import precision
from proxfl.research.reproduce import exactness, stability


@pytest.fixture(scope="module")
def frame():
    with precision(np.float64):
        _, _, simplex, _, batches, _ = exactness.panels()
        cases = [exactness.case(**one) for one in (simplex, batches)]
    bounds = pd.concat([exactness.runs(c, rounds=60, seeds=2) for c in cases])
    steps = [
        dict(problem=name, eta_g=4.0, tau=tau, curvature=2.0, proven=0.3)
        | dict(predicted=1.0 * tau, near=0.99 * tau, cold=0.9 * tau)
        for name in (stability.MAIN, "nuclear")
        for tau in (1, 5)
    ]
    return pd.concat([bounds, pd.DataFrame(steps).assign(part="steps")], ignore_index=True)


def test_runs_stay_below_our_bounds_and_those_below_the_paper_s(frame):
    rows = frame[frame.part == "bounds"]
    assert (rows["value"] <= rows["ours"] * (1 + 1e-9)).all()
    both = rows.dropna(subset=["paper"])
    assert (both["ours"] < both["paper"]).all() and (both["paper"] < both["redone"]).all()
    assert set(rows["panel"]) - set(both["panel"]) == {"simplex, the longest step of B"}


def test_findings_are_ratios_of_the_data(frame):
    bounds, steps = (finding.measure(frame) for finding in exactness.FINDINGS)
    assert (bounds.to_numpy() <= 1).all() and bounds.shape == (1, 2)
    assert steps.median().tolist() == pytest.approx([0.99, 0.9])


def test_both_figures_are_drawn(frame):
    figures = exactness.draw(frame)
    assert list(figures) == ["bounds", "steps"]


def test_the_longest_step_is_the_one_before_the_first_that_fails():
    steps = np.array([1.0, 2.0, 3.0, 4.0])
    assert stability.first_failure(steps, [True, True, False, True]) == 2.0
    assert stability.first_failure(steps, [False] * 4) == 0.0
    assert stability.first_failure(steps, [True] * 4) == 4.0
