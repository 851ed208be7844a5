"""Steps the server learns: from any first one to the optimum, and longer than the worst case's."""

import numpy as np
import pytest

import proxfl as px
from tests.algorithms.test_accelerated import rounds_needed
from tests.algorithms.test_accelerated import slow as slow


@pytest.mark.parametrize("times", [1e-4, 1e-2, 1.0, 100.0])
def test_any_first_step_leads_to_the_optimum(slow, times):
    assert rounds_needed(px.Adaptive(times / slow[2]), slow) < np.inf


def test_it_needs_fewer_rounds_than_the_step_that_is_safe_everywhere(slow):
    safe = rounds_needed(px.ProximalGradient(1 / slow[2]), slow)
    assert 2 * rounds_needed(px.Adaptive(1 / slow[2]), slow) < safe


def test_the_step_stays_where_the_model_stays(slow):
    """At an optimum nothing moves and nothing is learnt: no step may grow without bound."""
    problem, shards, L, _ = slow
    still = px.Problem(g=px.prox.Box(0.0, 0.0), x0=problem.x0, loss=problem.loss)
    result = px.simulate(px.Adaptive(1 / L), still, shards, rounds=2000, observe={})
    assert result.run.server.step == 1 / L
