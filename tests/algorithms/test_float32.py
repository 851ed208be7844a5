"""Single precision over many rounds: that is where methods drift."""

import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.losses import Squared
from proxfl.prox import L1
from tests import cases

ROUNDS = 10_000
STEPS = (0.02, 1.0, 5)


def error_after(method, rounds, **options):
    """Relative distance of the single-precision model to the double-precision solution."""
    sites = cases.sites(8, labels=False)
    exact = px.simulate(
        px.Decoupled(*STEPS),
        cases.least_squares(),
        sites,
        rounds=20_000,
        every=100,
        observe={"certificate": measure.Stationarity()},
        until={"certificate": 1e-13},
    )
    assert exact.met
    problem = px.Problem(g=L1(0.05), x0=np.zeros(cases.D, np.float32), loss=Squared())
    rough = px.simulate(method(*STEPS), problem, sites, rounds=rounds, every=rounds, **options)
    return np.linalg.norm(rough.model - exact.model) / np.linalg.norm(exact.model)


@pytest.mark.parametrize("method", [px.Decoupled, px.DecoupledPartial])
def test_algorithm_one_keeps_its_precision_over_ten_thousand_rounds(method):
    assert error_after(method, ROUNDS) < 1e-5


def test_so_does_server_memory_when_a_quarter_of_the_clients_answer():
    assert error_after(px.DecoupledPartial, ROUNDS, cohort=2) < 1e-5


def test_the_printed_message_lets_the_mean_correction_wander():
    """Why the uplink is the summed gradient: the literal message is at least 10 times worse."""
    assert error_after(px.AsPrinted, ROUNDS) > 10 * error_after(px.Decoupled, ROUNDS)
