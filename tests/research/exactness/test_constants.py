"""The constants that docs/theory.md prints, each from its formula."""

import math

import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms.exactness import drift, longest_step, margin
from proxfl.research.theory import GradientNoise, Setting, Start

TAUS = (1, 2, 3, 5, 10, 30, 100, 1000)
SERVER = (1.0, 1.5, 2.0, 4.0, 16.0)
MANY = 10_000  # local steps, as good as infinitely many


def at(q: float, eta_g: float = 1.0, tau: int = MANY) -> Setting:
    return Setting(1.0, 1.0, q, eta_g, tau)


@pytest.mark.parametrize("tau", TAUS[1:])
def test_kappa_is_its_closed_form_and_grows_with_theta_and_tau(tau):
    for theta in (0.1, 0.5, 2.0):
        closed = ((1 + theta / tau) ** tau - 1 - theta) / theta**2
        assert drift(theta, 1.0, tau).kappa == pytest.approx(closed, rel=1e-9)
        limit = (math.exp(theta) - 1 - theta) / theta**2
        assert drift(theta / 2, 1.0, tau).kappa <= drift(theta, 1.0, tau).kappa < limit
        assert drift(theta, 1.0, tau - 1).kappa < drift(theta, 1.0, tau).kappa
    assert drift(1e-9, 1.0, tau).kappa == pytest.approx((tau - 1) / (2 * tau), rel=1e-6)
    assert drift(1.0, 1.0, 1) == (0.0, 0.0, 0.0)


def test_a_holds_up_to_half_of_one_over_L_for_every_tau():
    for tau in (*TAUS, MANY):
        assert at(0.5, tau=tau).covers()
        assert all(at(0.5, eta_g, tau).covers() for eta_g in SERVER)
    found = [longest_step(1.0, 1.0, eta_g, MANY) for eta_g in SERVER]
    np.testing.assert_allclose(found, [0.52, 0.66, 0.76, 0.92, 0.99], atol=0.01)
    assert longest_step(1.0, 1.0, 1.0, 1) == pytest.approx(1.0)


@pytest.mark.parametrize("L_f", [1e-3, 0.5, 1.0])
def test_at_the_longest_step_of_a_drift_dies_out_with_the_gradient(L_f):
    for tau in TAUS:
        for eta_g in SERVER:
            step = longest_step(1.0, L_f, eta_g, tau)
            _, alpha, beta = drift(step / eta_g, eta_g, tau)
            assert alpha * step + beta < 1


def test_a_s_constants_at_half_of_one_over_L():
    kappa, _, beta = drift(0.5, 1.0, MANY)
    more = (math.exp(0.5) - 1) / 0.5
    assert kappa**2 / (1 - beta) <= 0.51 and 2 * kappa**2 / (1 - beta) <= 1.01
    # |G|^2 at the start is at most (F - F*) / (step (1 - L_f step / 2)).
    assert 2 + 2 * (more * 0.5) ** 2 / (1 - beta) / (1 - 0.25) <= 3.6


def test_b_holds_up_to_two_fifths_of_one_over_L_for_every_tau():
    for tau in (*TAUS, MANY):
        assert all(at(0.4, eta_g, tau).covers(mu=mu) for eta_g in SERVER for mu in (1e-6, 1.0))
    kappa, _, beta = drift(0.4, 1.0, MANY)
    assert kappa**2 / (2 * (1 - 0.4 - beta)) <= 0.45


def test_c1_holds_up_to_a_third_and_its_constants():
    for tau in (*TAUS, MANY):
        assert all(
            at(1 / 3, eta_g, tau).covers(mu, noisy=True) for eta_g in SERVER for mu in (0.0, 1.0)
        )
        assert at(1 / 3, tau=tau).chi < 0.96
    beta, chi = at(1 / 3).beta, at(1 / 3).chi
    assert 4 * chi**2 / (1 - beta) ** 2 <= 5.6
    assert 2 * chi**2 / ((1 - beta) * (2 / 3 - beta)) <= 4.7


def test_c2_s_constants_at_a_quarter():
    _, alpha, beta = drift(0.25, 1.0, MANY)
    assert 2 * 0.345 * alpha**2 / (1 - beta) <= (1 - 0.25) / 2  # the server's move is paid for
    assert 8.5 * (0.345 * (1 - beta) - 0.25**2) >= 2  # and so is the drift
    assert 3.2 * 2 + 3.2 * 8.5 * 0.25 <= 13.2 + 1e-12
    assert 3.2 * 8.5 * 2 * 0.345 * at(0.25).chi ** 2 / (1 - beta) <= 18.7


def test_under_the_paper_s_conditions_the_noise_constant_is_below_two_and_a_half():
    for n in (1, 10, 100, 10_000):
        eta_g = max(1.5, math.sqrt(n / 8))
        assert 2 + 5.6 * (0.1 / eta_g) ** 2 * n <= 2.45


def test_beta_below_one_cannot_be_left_out():
    """A light client with Hessian -L: its correction is multiplied by -beta in every round."""
    eta, eta_g, tau, light = 1.5 / 40, 1.0, 40, 1e-9
    beta = drift(eta * tau, eta_g, tau).beta
    assert beta > 1
    bend = np.array([1.0, -1.0])

    def one_round(p, c):
        z = np.array([p, p])
        total = np.zeros(2)
        for _ in range(tau):
            grad = bend * z
            total += grad
            z = z - eta * (grad + c)
        v = total @ np.array([1 - light, light]) / tau
        return p - eta_g * eta * tau * v, v - total / tau

    p, c = 0.0, np.array([-light, 1.0])  # at the optimum, but for the correction
    for _ in range(5):
        p, after = one_round(p, c)
        assert after[1] == pytest.approx(-beta * c[1], rel=1e-6)
        c = after
    assert longest_step(1.0, 1.0, 1.0, MANY) < 1.2565  # where beta is 1


def test_a_step_is_proven_up_to_the_longest_and_not_beyond():
    for noisy in (False, True):
        longest = longest_step(3.0, 1.0, 2.0, 7, noisy=noisy)
        q, (_, alpha, beta) = 3.0 * longest, drift(1.5 * longest, 2.0, 7)
        sides = ((1 + noisy) * q * alpha) ** 2, (1 - longest) * (1 - beta) ** 2
        assert sides[0] == pytest.approx(sides[1], rel=1e-9)
        assert margin(3.0, 1.0, 1.001 * longest, 2.0, 7, noisy) < 0
        assert px.Decoupled(0.1, 2.0, 7).longest_proven(3.0, 1.0, noisy) == longest
        other = px.Decoupled(0.1, 2.0, 7, "constant")
        assert other.longest_proven(3.0, 1.0, noisy) is None


def test_b_covers_every_step_that_a_covers_strictly_with_a_smaller_constant():
    for share in (0.3, 0.9, 0.999):
        setting = at(share * longest_step(1.0, 1.0, 1.0, 5), tau=5)
        mu = setting.usable(1.0)
        assert 0 < mu and setting.covers(mu)
        assert mu == 1.0 or not setting.covers(1.001 * mu)
    assert not at(1.001 * longest_step(1.0, 1.0, 1.0, 5), tau=5).usable(1.0)


def test_one_local_step_of_one_over_L_is_proximal_gradient():
    """No drift, hence no share of it in the bound, even where 1 - mu step is 0."""
    for L_f in (1.0, 0.3, 7.0):
        setting = Setting(9.0, L_f, 1 / L_f, 1.0, 1)
        assert setting.usable(L_f) == pytest.approx(L_f)
        for mu in (L_f, L_f / 2):
            bound = setting.objective(Start(2.0, 1.0, 1.0), mu, np.array([0, 1, 3]))
            np.testing.assert_allclose(bound, 2.0 * (1 - mu / L_f) ** np.array([0, 1, 3]))


def test_a_linear_mean_loss_limits_steps_by_its_clients_only():
    assert longest_step(0.0, 0.0, 1.0, 5) == longest_step(2.0, 0.0, 1.0, 1) == math.inf
    assert 0 < longest_step(2.0, 0.0, 1.0, 5) < math.inf


def test_without_a_contraction_noise_adds_up():
    beyond = at(0.9).objective(Start(1.0, 0.0, 0.0), 1.0, 10, GradientNoise(1.0, 2.0))
    assert beyond == math.inf
