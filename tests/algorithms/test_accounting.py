"""The price of noise, against formulas written out by hand and a second accountant."""

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import proxfl as px
from proxfl.algorithms import accounting as privacy
from proxfl.algorithms.dp_spider import Down
from tests import cases


def gaussian_delta(epsilon, multiplier):
    """The exact trade-off of one Gaussian mechanism (Balle and Wang 2018, Theorem 8)."""
    a, b = 1 / (2 * multiplier), epsilon * multiplier
    return stats.norm.cdf(a - b) - np.exp(epsilon) * stats.norm.cdf(-a - b)


@pytest.mark.parametrize("noise, rounds", [(20.0, 1), (30.0, 50), (80.0, 500)])
def test_epsilon_is_that_of_the_exact_formula_for_gaussians(noise, rounds):
    """Rounds compose to one Gaussian of sqrt(rounds) times the sensitivity, which is 2 clips."""
    multiplier = noise / 2 / np.sqrt(rounds)
    exact = optimize.brentq(lambda e: gaussian_delta(e, multiplier) - 1e-5, 1e-6, 100)
    assert privacy.epsilon(noise, rounds, 1e-5) == pytest.approx(exact, rel=1e-6)


def test_and_that_of_the_accountant_which_composes_privacy_loss_distributions():
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(30.0 / 2), 50)
    expected = accountant.get_epsilon(1e-5)
    assert privacy.epsilon(30.0, 50, 1e-5) == pytest.approx(expected, rel=1e-4)


def test_answers_of_any_noise_add_up_as_that_accountant_composes_them():
    accountant, noises = dp_accounting.pld.PLDAccountant(), [30.0, 30.0, 12.0, 55.0]
    for noise in noises:
        accountant.compose(dp_accounting.GaussianDpEvent(noise / 2))
    found = privacy.composed(sum(map(privacy.cost, noises)), 1e-6)
    assert found == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-4)
    assert privacy.composed(0.0, 1e-6) == 0


@pytest.mark.parametrize(
    "target, rounds, delta", [(0.1, 1, 1e-9), (2.0, 100, 1e-6), (40.0, 7, 0.01)]
)
def test_the_noise_for_an_epsilon_is_the_one_of_dp_accounting(target, rounds, delta):
    expected = 2 * np.sqrt(rounds) * dp_accounting.get_sigma_gaussian(target, delta)
    found = privacy.noise_for(target, delta, rounds)
    assert expected * (1 - 1e-9) <= found <= expected * 1.002


def renyi_by_hand(noise, rounds, delta, q):
    """Wang, Balle and Kasiviswanathan (2019), Theorem 9, for integer orders, then to (e, d)."""
    base = lambda order: order / (2 * (noise / 2) ** 2)
    best = np.inf
    for order in range(2, 64):
        second = min(4 * np.expm1(base(2)), 2 * np.exp(base(2)))
        total = 1 + q**2 * special.comb(order, 2) * second
        for j in range(3, order + 1):
            total += 2 * q**j * special.comb(order, j) * np.exp((j - 1) * base(j))
        spent = rounds * np.log(total) / (order - 1)
        best = min(best, spent + np.log(1 / delta) / (order - 1))
    return best


def test_sampling_helps_as_much_as_the_theorem_says():
    """The library's bound is a sharper form of the one by hand, so at most as large."""
    found = privacy.epsilon(8.0, 100, 1e-5, (10, 200))
    by_hand = renyi_by_hand(8.0, 100, 1e-5, 0.05)
    assert 0.5 * by_hand < found <= by_hand
    assert found < privacy.epsilon(8.0, 100, 1e-5) / 3


def test_epsilon_falls_with_noise_and_delta_and_rises_with_rounds_and_cohort():
    spent = privacy.epsilon
    assert spent(10.0, 20, 1e-5) > spent(12.0, 20, 1e-5) > spent(40.0, 20, 1e-5) > 0
    assert spent(10.0, 20, 1e-6) > spent(10.0, 20, 1e-5)
    assert spent(10.0, 40, 1e-5) > spent(10.0, 20, 1e-5)
    cohorts = [spent(10.0, 20, 1e-5, (m, 100)) for m in (2, 10, 50, 99, 100)]
    assert cohorts == sorted(cohorts)
    assert spent(0.0, 1, 1e-5) == np.inf


@pytest.mark.parametrize("sampling", [None, (5, 100)])
def test_the_noise_for_an_epsilon_spends_just_that(sampling):
    noise = privacy.noise_for(2.0, 1e-5, 50, sampling)
    assert 2.0 * 0.99 < privacy.epsilon(noise, 50, 1e-5, sampling) <= 2.0


def test_a_private_method_knows_what_it_spends():
    local = px.Private(px.Decoupled(0.1), 1.0, 30.0)
    assert local.spent(10, 1e-5) == privacy.epsilon(30.0, 10, 1e-5)
    assert local.spent(10, 1e-5, (2, 5)) == local.spent(10, 1e-5)  # the server sees who answers
    central = px.Private(px.Decoupled(0.1), 1.0, 30.0, "server")
    assert central.spent(10, 1e-5, (2, 50)) == privacy.epsilon(30.0, 10, 1e-5, (2, 50))
    twice = px.Private(px.Mime(0.1), 1.0, 30.0)
    assert twice.spent(10, 1e-5) == privacy.epsilon(30.0, 20, 1e-5)


@pytest.mark.parametrize(
    "given, words",
    [
        ((1.0, 0, 1e-5), "rounds must be at least 1, got 0"),
        ((1.0, 5, 0.0), "delta must be between 0 and 1, got 0.0"),
        ((1.0, 5, 1e-5, (7, 5)), r"cohort <= clients, got \(7, 5\)"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(given, words):
    with pytest.raises(ValueError, match=words):
        privacy.epsilon(*given)


@pytest.mark.parametrize("keep, longest", [(0.0, 0.5), (1.0, 0.1)])
def test_dp_spider_pays_for_anchors_and_changes_alike(keep, longest):
    """The noise of each is three times what its message is clipped to, as `spent` assumes."""
    spider, problem = px.DPSpider(0.1, 0.5, 0.1, 3.0), cases.problem()
    f = problem.objective(jax.tree.map(lambda a: a[0], px.shards_of(cases.sites())))
    down = Down(jnp.ones(cases.D), jnp.zeros(cases.D), jnp.array(keep))
    send = lambda seed: spider.client(f, problem.g, None, down, jax.random.key(seed)).up
    sent = jax.vmap(send)(jnp.arange(4000))
    # Means and deviations of 4000 draws: within five standard errors of 3 longest / sqrt(4000).
    assert jnp.linalg.norm(sent.mean(axis=0)) <= longest * (1 + 5 * 3 * (cases.D / 4000) ** 0.5)
    np.testing.assert_allclose(sent.std(axis=0), 3 * longest, rtol=0.06)
    assert spider.spent(10, 1e-5) == privacy.epsilon(3.0, 10, 1e-5)
