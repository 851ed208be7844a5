"""Rounds in which only some clients answer."""

import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from tests import cases
from tests.algorithms.runs import CLOSE, models
from tests.cases import ETA, TAU


@pytest.mark.parametrize("cohort", [1, 2, 4])
def test_partial_participation_converges_to_the_optimum(cohort):
    sites, problem = cases.sites(), cases.problem()
    result = px.simulate(
        px.DecoupledPartial(0.05, 1.0, 4),
        problem,
        sites,
        rounds=60_000,
        cohort=cohort,
        until={"optimality": 1e-10},
        every=100,
    )
    assert result.met


def test_a_fifth_of_the_clients_per_round_suffices():
    sites = cases.sites(20)
    options = dict(rounds=60_000, cohort=4, until={"optimality": 1e-10}, every=100)
    assert px.simulate(px.DecoupledPartial(0.05, 1.0, 4), cases.problem(), sites, **options).met


def test_with_everyone_present_server_memory_changes_no_iterate():
    sites, problem = cases.sites(), cases.problem()
    plain = models(px.Decoupled(0.1, 1.5, 5), problem, sites, 50)
    memory = models(px.DecoupledPartial(0.1, 1.5, 5), problem, sites, 50)
    np.testing.assert_allclose(plain, memory, atol=1e-13)


@pytest.mark.parametrize("cohort", [1, 3])
@pytest.mark.parametrize(
    "method, theta",
    [
        (px.FedDR(0.4, ETA, TAU, 1.5), 0.05),
        (px.FedADMM(0.4, ETA, TAU), 0.05),
        (px.FedSplit(0.4, ETA, TAU), 0.05),
        (px.Scaffold(ETA / 2, 1.0, TAU), 0.0),
    ],
    ids=lambda v: type(v).__name__,
)
def test_methods_with_memory_reach_the_optimum_when_clients_sit_rounds_out(method, theta, cohort):
    result = px.simulate(
        method,
        cases.least_squares(theta),
        cases.sites(labels=False),
        rounds=8000,
        every=50,
        cohort=cohort,
        observe={"certificate": measure.Stationarity()},
        until={"certificate": 1e-11},
    )
    assert result.met


def test_so_it_is_when_clients_sit_rounds_out():
    options = dict(rounds=40, cohort=2)
    one = px.simulate(px.FedDR(0.4, 0.05, 5), cases.problem(), cases.sites(), **options)
    other = px.simulate(px.FedADMM(0.4, 0.05, 5), cases.problem(), cases.sites(), **options)
    np.testing.assert_allclose(one.model, other.model, **CLOSE)
