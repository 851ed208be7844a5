"""Noise in whole numbers has the distribution that its definition says, and is its seed's alone."""

import numpy as np
import pytest
from scipy import special, stats

from proxfl.engine import discrete_gaussian, fixed_point


def test_whole_numbers_come_as_often_as_the_definition_says(deviation=2):
    """A chi-square test of 5,000 draws; the seed is fixed, so it fails always or never."""
    below = discrete_gaussian.below_of(b"counts")
    drawn = np.array([discrete_gaussian.draw(below, deviation) for _ in range(5_000)])
    values = np.arange(-20 * deviation, 20 * deviation + 1)
    chances = np.exp(-(values**2) / (2 * deviation**2))
    expected = len(drawn) * chances / chances.sum()
    counts = np.array([(drawn == value).sum() for value in values])
    common = expected >= 5
    groups = [np.append(a[common], a[~common].sum()) for a in (counts, expected)]
    assert stats.chisquare(*groups).pvalue > 1e-3


@pytest.mark.parametrize("n, d", [(0, 1), (1, 3), (5, 2)])
def test_coins_fall_with_the_probability_that_is_asked_for(n, d):
    below = discrete_gaussian.below_of(b"coins")
    falls = sum(discrete_gaussian.falls(below, n, d) for _ in range(2_000))
    assert stats.binomtest(falls, 2_000, np.exp(-n / d)).pvalue > 1e-3


def test_at_large_deviations_draws_are_normal():
    deviation = 3 * 2**41
    drawn = fixed_point.decode(discrete_gaussian.noise(b"large", deviation, 1_000))
    scaled = drawn / (deviation * fixed_point.STEP)
    assert stats.kstest(scaled, "norm").pvalue > 1e-3


def test_a_seed_has_one_noise_and_another_another():
    once, again = (discrete_gaussian.noise(b"one", 2**45, 50) for _ in range(2))
    other = discrete_gaussian.noise(b"other", 2**45, 50)
    np.testing.assert_array_equal(once, again)
    assert not (once == other).all(axis=1).any()
    np.testing.assert_array_equal(discrete_gaussian.noise(b"one", 2**45, 9), once[:9])


@pytest.mark.parametrize("apart", [0.3, 2.0])
def test_what_it_spends_is_what_a_gaussian_spends(apart):
    """The exact delta of one number (Canonne and others, Theorem 7), at 1000 steps already."""
    deviation = 1000
    distance = round(apart * deviation)
    values = np.arange(-12 * deviation, 12 * deviation + distance + 1)
    log_of = lambda centre: -((values - centre) ** 2) / (2 * deviation**2)
    log_total = special.logsumexp(log_of(0))
    for epsilon in (0.1, 1.0, 3.0):
        here, there = np.exp(log_of(0) - log_total), np.exp(log_of(distance) - log_total)
        found = np.maximum(there - np.exp(epsilon) * here, 0).sum()
        a, b = apart / 2, epsilon / apart
        gaussian = stats.norm.cdf(a - b) - np.exp(epsilon) * stats.norm.cdf(-a - b)
        assert found == pytest.approx(gaussian, rel=1e-4, abs=1e-12)
