"""Laws of synthetic(alpha, beta), its scaling and its recipe."""

import json
import math

import numpy as np
import pytest

from proxfl.data.federated import curvatures
from proxfl.data.partition import lognormal
from proxfl.data.synthetic import Scaling, rescale, synthetic

PAPER = Scaling("unit", smoothness=0.01)


def same(first, second):
    for (A, y), (B, z) in zip(first.sites, second.sites, strict=True):
        np.testing.assert_array_equal(A, B)
        np.testing.assert_array_equal(y, z)


def test_the_recipe_round_trips_through_json_and_makes_the_same_data():
    made = synthetic(50.0, 0.5, clients=3, rows=[5, 9, 2], scaling=PAPER, seed=7)
    recipe = json.loads(json.dumps(made.recipe))
    assert recipe == made.recipe
    choices = recipe["choices"]
    again = synthetic(**choices | {"scaling": Scaling(**choices["scaling"])})
    same(made, again)
    assert again.recipe == made.recipe


def test_another_seed_gives_other_data():
    first, second = (synthetic(1.0, 1.0, seed=seed).sites[0][0] for seed in (0, 1))
    assert not np.any(first == second)


@pytest.mark.parametrize("spread", ["std", "variance"])
def test_alpha_has_no_effect_on_argmax_labels(spread):
    calm, wild = (synthetic(a, 1.0, rows=500, spread=spread, seed=3) for a in (0.0, 50.0))
    same(calm, wild)


def test_alpha_has_an_effect_on_sign_labels():
    calm, wild = (synthetic(a, 1.0, labels="sign", seed=3) for a in (0.0, 50.0))
    flipped = [np.mean(y != z) for (_, y), (_, z) in zip(calm.sites, wild.sites, strict=True)]
    assert np.mean(flipped) > 0.1


@pytest.mark.parametrize("labels", ["argmax", "sign"])
def test_labels_are_signs_and_the_shapes_are_as_asked(labels):
    sizes = lognormal(4, seed=0)
    sites = synthetic(1.0, 1.0, clients=4, rows=sizes, features=7, labels=labels, seed=0).sites
    assert [A.shape for A, _ in sites] == [(m, 7) for m in sizes]
    assert [y.shape for _, y in sites] == [(m,) for m in sizes]
    assert {A.dtype for A, _ in sites} == {y.dtype for _, y in sites} == {np.dtype(float)}
    assert set(np.concatenate([y for _, y in sites])) == {-1.0, 1.0}


def test_feature_variances_fall_as_j_to_the_minus_1_2():
    [(A, _)] = synthetic(0.0, 0.0, clients=1, rows=20_000, features=10, seed=0).sites
    expected = np.arange(1, 11) ** -1.2
    # The relative standard error of a variance of m normals is sqrt(2 / m).
    np.testing.assert_allclose(A.var(axis=0), expected, rtol=5 * math.sqrt(2 / 20_000))
    off_diagonal = np.corrcoef(A.T) - np.eye(10)
    assert np.abs(off_diagonal).max() < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("spread, std", [("std", 9.0), ("variance", 3.0)])
def test_beta_is_the_spread_of_the_clients_centres(spread, std):
    made = synthetic(0.0, 9.0, clients=2000, rows=1, features=50, spread=spread, seed=0)
    centres = [A.mean() for A, _ in made.sites]  # each within 1 / sqrt(50) of B_k, or nearly
    np.testing.assert_allclose(np.std(centres), std, rtol=0.05)


def test_the_papers_setting_is_the_one_in_the_fact_sheet():
    """Unit rows times 0.2037 give a smoothness of 0.01 and 0.0044 as the gradient at zero."""
    facts = synthetic(50.0, 50.0, scaling=PAPER, seed=0).recipe["facts"]
    assert round(facts["factor"], 4) == 0.2037
    assert round(facts["gradient_at_zero"], 4) == 0.0044
    assert facts["clients_with_one_label"] >= 27


def test_a_smoothness_target_is_met_for_the_plain_mean_over_clients():
    made = synthetic(
        1.0, 1.0, clients=4, rows=[3, 50, 7, 20], scaling=Scaling(smoothness=2.0), seed=0
    )
    hessian = np.mean([A.T @ A / (4 * len(A)) for A, _ in made.sites], axis=0)
    np.testing.assert_allclose(np.linalg.eigvalsh(hessian)[-1], 2.0, rtol=1e-12)
    np.testing.assert_allclose(made.recipe["facts"]["smoothness"], 2.0, rtol=1e-12)
    assert made.recipe["facts"]["client_smoothness"] >= 2.0


def test_unit_rows_times_a_factor_have_that_length():
    made = synthetic(50.0, 50.0, scaling=Scaling("unit", factor=0.3), seed=0)
    lengths = np.concatenate([np.linalg.norm(A, axis=1) for A, _ in made.sites])
    np.testing.assert_allclose(lengths, 0.3, rtol=1e-14)


def test_scaling_keeps_the_labels_and_rows_of_zeros():
    sites = [(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([1.0, -1.0]))]
    [(A, y)], factor = rescale(sites, Scaling("unit"))
    assert factor == 1.0 and y is sites[0][1]
    np.testing.assert_array_equal(A, [[0.0, 0.0], [0.6, 0.8]])


@pytest.mark.parametrize("rows, features", [(3, 8), (8, 3)])
def test_curvatures_are_eigenvalues_whatever_the_shape(rows, features):
    sites = synthetic(1.0, 1.0, clients=3, rows=rows, features=features, seed=0).sites
    terms = [A.T @ A / len(A) for A, _ in sites]
    found = curvatures(sites)
    top = np.linalg.eigvalsh(np.mean(terms, axis=0))[-1]
    np.testing.assert_allclose(found["lambda_max"], top, rtol=1e-12)
    worst = max(np.linalg.eigvalsh(term)[-1] for term in terms)
    np.testing.assert_allclose(found["client_lambda_max"], worst, rtol=1e-12)


@pytest.mark.parametrize(
    "bad, words",
    [
        ({"alpha": -1.0}, "alpha must be non-negative and finite, got -1.0."),
        ({"beta": np.nan}, "beta must be non-negative and finite, got nan."),
        ({"clients": 0}, "clients must be at least 1, got 0."),
        ({"clients": 3, "rows": [4, 4]}, "3 of them, one per client, got 2."),
        ({"rows": 0}, "whole numbers of at least 1, got 0."),
        ({"features": 0}, "features must be at least 1, got 0."),
        ({"labels": "max"}, "labels must be one of argmax, sign, got 'max'."),
        ({"spread": "sd"}, "spread must be one of std, variance, got 'sd'."),
        ({"scaling": Scaling(factor=1.0, smoothness=2.0)}, "factor=1.0 and smoothness=2.0; "),
    ],
    ids=str,
)
def test_bad_arguments_get_one_clear_sentence(bad, words):
    with pytest.raises(ValueError) as error:
        synthetic(**{"alpha": 1.0, "beta": 1.0, "seed": 0} | bad)
    sentence = str(error.value)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence


@pytest.mark.parametrize(
    "bad, words",
    [
        ({"rows": "cols"}, "Scaling.rows must be one of raw, unit, got 'cols'."),
        ({"factor": 0.0}, "Scaling.factor must be positive and finite, got 0.0."),
        ({"smoothness": np.inf}, "Scaling.smoothness must be positive and finite, got inf."),
    ],
    ids=str,
)
def test_a_scaling_that_makes_no_sense_cannot_be_made(bad, words):
    with pytest.raises(ValueError) as error:
        Scaling(**bad)
    assert str(error.value) == words
