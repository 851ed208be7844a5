"""Laws of the generators with a known truth and of the dials they share."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from proxfl.data.design import Design, correlated, covariance, root
from proxfl.data.truth import group_sparse, lasso, logistic, low_rank, poisson

GENERATORS = [lasso, logistic, poisson, group_sparse, low_rank]
NOISELESS = [lasso, group_sparse, low_rank]
DIALS = ["feature_shift", "coef_shift"]
name = lambda generator: generator.__name__


def gradients_at_zero(made):
    """Of half the squared error, one per client; linear in the labels, so it suits all of them."""
    return np.array([-A.T @ y / len(y) for A, y in made.sites])


def disagreement(made):
    gradients = gradients_at_zero(made)
    return math.sqrt(np.mean((gradients - gradients.mean(axis=0)) ** 2))


def pooled(made):
    features, labels = zip(*made.sites, strict=True)
    return np.concatenate(features), np.concatenate(labels)


@pytest.mark.parametrize("make", GENERATORS, ids=name)
def test_the_recipe_round_trips_through_json_and_makes_the_same_data(make):
    made = make(Design(clients=3, rows=(4, 9, 6), coef_shift=0.2, condition=10.0), seed=5)
    recipe = json.loads(json.dumps(made.recipe))
    assert recipe == made.recipe and recipe["generator"] == make.__name__
    choices = recipe["choices"]
    again = make(**choices | {"design": Design(**choices["design"])})
    assert again.recipe == made.recipe
    np.testing.assert_array_equal(again.truth, made.truth)
    for found, expected in zip(again.sites, made.sites, strict=True):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("make", GENERATORS, ids=name)
def test_sizes_may_differ_and_everything_is_float64(make):
    made = make(Design(clients=3, rows=[4, 9, 6], features=10), seed=0)
    assert [len(A) for A, _ in made.sites] == [len(y) for _, y in made.sites] == [4, 9, 6]
    assert all(a.dtype == np.float64 for site in made.sites for a in site)


@pytest.mark.parametrize("make", GENERATORS, ids=name)
def test_at_dial_zero_it_does_not_matter_who_holds_which_row(make):
    """However many clients cut the rows however they like, the pooled rows are the same."""
    first = pooled(make(Design(clients=2, rows=[90, 30]), seed=2))
    second = pooled(make(Design(clients=4, rows=30), seed=2))
    for found, expected in zip(first, second, strict=True):
        # Products of 20 terms of size 1, summed in another order: a few times eps.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dial", DIALS)
def test_a_single_client_is_never_shifted(dial):
    plain, shifted = (lasso(replace(Design(clients=1), **{dial: s}), seed=0) for s in (0.0, 9.0))
    np.testing.assert_array_equal(pooled(plain)[1], pooled(shifted)[1])


@pytest.mark.parametrize("dial", DIALS)
@pytest.mark.parametrize("make", NOISELESS + [logistic], ids=name)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_disagree_more_as_the_dial_grows(make, dial, seed):
    grid = [0.0, 1.0, 2.0, 4.0]
    found = [disagreement(make(replace(Design(rows=200), **{dial: s}), seed=seed)) for s in grid]
    assert found == sorted(found) and found[-1] > 2 * found[0]


def test_gradients_of_counts_disagree_more_as_the_dial_grows():
    grid = [0.0, 0.2, 0.4]
    found = [disagreement(poisson(Design(rows=500, coef_shift=s), seed=0)) for s in grid]
    assert found == sorted(found)


@pytest.mark.parametrize("make", NOISELESS, ids=name)
def test_without_noise_the_mean_of_the_clients_fits_is_the_truth(make):
    made = make(Design(coef_shift=2.0, feature_shift=1.0), noise=0.0, seed=1)
    fits = [np.linalg.lstsq(A, y)[0] for A, y in made.sites]
    np.testing.assert_allclose(np.mean(fits, axis=0), made.truth, atol=1e-11)
    assert np.std(fits, axis=0).min() > 0.5


def test_feature_means_spread_as_the_dial_says_around_zero():
    made = lasso(Design(clients=100, rows=400, feature_shift=3.0), seed=0)
    means = np.array([A.mean(axis=0) for A, _ in made.sites])
    assert np.abs(means.mean(axis=0)).max() < 5 / math.sqrt(100 * 400)
    np.testing.assert_allclose(means.std(), 3.0, rtol=0.1)


def test_rows_without_correlation_are_left_as_they_are_which_the_root_would_do_too():
    rows, plain = np.random.default_rng(0).standard_normal((3, 20)), Design(correlation=0.0)
    np.testing.assert_array_equal(correlated(plain, rows), rows @ root(covariance(plain)))


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e6])
def test_the_covariance_has_the_condition_number_asked_for(condition):
    found = np.linalg.cond(covariance(Design(condition=condition)))
    # Rounding moves the smallest eigenvalue by about eps, which is eps * condition of it.
    np.testing.assert_allclose(found, condition, rtol=1e-14 * condition + 1e-12)


def test_correlations_fall_by_half_with_each_step():
    A, _ = pooled(lasso(Design(clients=2, rows=20_000, features=6), nonzeros=2, seed=0))
    expected = 0.5 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(np.cov(A.T), expected, atol=5 * math.sqrt(2 / 40_000))


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_the_low_rank_truth_has_the_rank_and_equal_singular_values(rank):
    made = low_rank(outputs=10, rank=rank, strength=2.0, seed=0)
    assert made.truth is not None and made.truth.shape == (20, 10)
    assert np.linalg.matrix_rank(made.truth) == rank
    np.testing.assert_allclose(np.linalg.svd(made.truth)[1][:rank], 2.0, rtol=1e-13)
    assert made.sites[0][1].shape == (60, 10)


@pytest.mark.parametrize("make", [lasso, logistic, poisson], ids=name)
@pytest.mark.parametrize("nonzeros", [0, 3, 20])
def test_sparse_truths_have_as_many_nonzeros_as_asked(make, nonzeros):
    truth = make(nonzeros=nonzeros, strength=0.2, seed=0).truth
    assert np.count_nonzero(truth) == nonzeros
    assert set(np.abs(truth[truth != 0])) <= {0.2}


def test_group_sparse_truths_are_zero_outside_whole_groups():
    truth = group_sparse(group=4, active=3, seed=0).truth
    assert truth is not None
    filled = np.count_nonzero(truth.reshape(5, 4), axis=1)
    assert sorted(filled) == [0, 0, 4, 4, 4]


def test_logistic_labels_follow_their_probabilities():
    made = logistic(Design(clients=1, rows=50_000), strength=0.5, seed=0)
    [(A, y)] = made.sites
    surprise = (y + 1) / 2 - 1 / (1 + np.exp(-A @ made.truth))
    assert set(y) == {-1.0, 1.0}
    # At the truth the score function has mean zero and entries of variance at most 1/4.
    assert np.abs(A.T @ surprise).max() / len(y) < 5 * 0.5 / math.sqrt(len(y))


def test_counts_have_the_mean_their_scores_say():
    [(A, y)] = (made := poisson(Design(clients=1, rows=50_000), seed=0)).sites
    means = np.exp(A @ made.truth)
    assert np.all(y == np.round(y)) and y.min() >= 0
    assert abs(np.sum(y - means)) < 5 * math.sqrt(means.sum())


def test_facts_hold_the_eigenvalues_a_step_size_needs():
    made = lasso(Design(rows=[10, 200], clients=2), seed=0)
    mean = np.mean([A.T @ A / len(A) for A, _ in made.sites], axis=0)
    facts = made.recipe["facts"]
    np.testing.assert_allclose(facts["lambda_max"], np.linalg.eigvalsh(mean)[-1], rtol=1e-12)
    assert facts["client_lambda_max"] > facts["lambda_max"]


@pytest.mark.parametrize(
    "make, design, bad, words",
    [
        (lasso, {"clients": 0}, {}, "clients must be a whole number of at least 1, got 0."),
        (lasso, {"rows": [1, 2]}, {}, "10 of them, one per client, got 2."),
        (lasso, {"correlation": 1.0}, {}, "strictly between -1 and 1, got 1.0."),
        (lasso, {"condition": 0.5}, {}, "condition must be at least 1 and finite, got 0.5."),
        (lasso, {"coef_shift": -2.0}, {}, "coef_shift must be non-negative and finite, got -2.0."),
        (lasso, {}, {"nonzeros": 21}, "between 0 and the 20 features, got 21."),
        (lasso, {}, {"noise": -1.0}, "noise must be non-negative and finite, got -1.0."),
        (lasso, {}, {"strength": np.nan}, "strength must be finite, got nan."),
        (
            low_rank,
            {},
            {"rank": 11},
            "rank must be between 1 and the 10 rows or columns of the truth, got 11.",
        ),
        (group_sparse, {}, {"group": 3}, "group must divide the 20 features, got 3."),
        (group_sparse, {}, {"group": 0}, "group must divide the 20 features, got 0."),
        (group_sparse, {}, {"active": 5}, "between 0 and the 4 groups, got 5."),
        (poisson, {"coef_shift": 50.0}, {}, "lower strength or the design's shifts."),
    ],
    ids=lambda v: getattr(v, "__name__", repr(v)),
)
def test_bad_arguments_get_one_clear_sentence(make, design, bad, words):
    with pytest.raises(ValueError) as error:
        make(replace(Design(), **design), **bad, seed=0)
    sentence = str(error.value)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence
