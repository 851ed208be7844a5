"""The estimators keep scikit-learn's promises, and ours."""

import numpy as np
import pytest
from sklearn import datasets, exceptions
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import parametrize_with_checks

from proxfl.estimators import (
    FederatedGroupLasso,
    FederatedGroupLassoCV,
    FederatedLinearRegression,
    FederatedLinearRegressionCV,
    FederatedLogisticRegression,
    FederatedLogisticRegressionCV,
    FederatedLowRankRegression,
    FederatedLowRankRegressionCV,
)

SHORT = {"points": 2, "folds": 2, "rule": "min", "tol": 1e-3}

ESTIMATORS = [
    FederatedLinearRegression(),
    FederatedLogisticRegression(),
    FederatedGroupLasso(),
    FederatedLowRankRegression(),
    FederatedLinearRegressionCV(**SHORT),
    FederatedLogisticRegressionCV(**SHORT),
    FederatedGroupLassoCV(**SHORT),
    FederatedLowRankRegressionCV(**SHORT),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


# Ten features fit where the checks above have made room already, so that little compiles anew.
X, Y = datasets.load_diabetes(return_X_y=True)
IDS = np.arange(len(Y)) * 3 // len(Y)
SITES = [(X[IDS == k], Y[IDS == k]) for k in range(3)]


def test_sites_and_client_ids_say_the_same():
    """In whatever order and by whatever names, the clients are who they are."""
    one = FederatedLinearRegression(l1=0.1).fit(X, Y, client_ids=IDS)
    other = FederatedLinearRegression(l1=0.1).fit_sites(SITES)
    named = FederatedLinearRegression(l1=0.1).fit(X, Y, np.array(["c", "a", "b"])[IDS])
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.intercept_ == other.intercept_ and one.n_iter_ == other.n_iter_
    assert named.objective_ == pytest.approx(one.objective_, rel=1e-9)


def test_clients_weighted_by_rows_find_the_model_of_all_rows():
    found = FederatedLinearRegression(l1=0.1, tol=1e-9).fit(X, Y, IDS)
    pooled = Lasso(0.1, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(found.coef_, pooled.coef_, atol=1e-6 * np.abs(found.coef_).max())
    np.testing.assert_allclose(found.predict(X), pooled.predict(X), rtol=1e-7)
    np.testing.assert_array_equal(found.coef_ != 0, pooled.coef_ != 0)


def test_clients_may_all_weigh_the_same():
    """One client twice as large then counts no more than the others."""
    doubled = [(np.tile(SITES[0][0], (2, 1)), np.tile(SITES[0][1], 2)), *SITES[1:]]
    fit = lambda sites: FederatedLinearRegression(site_weights="uniform").fit_sites(sites)
    assert fit(doubled).objective_ == pytest.approx(fit(SITES).objective_, rel=1e-9)


def test_what_was_learnt_is_told():
    found = FederatedLinearRegression(l1=0.1).fit(X, Y, IDS)
    assert found.converged_ and found.optimality_ <= found.tol
    assert found.n_iter_ == len(found.history_["round"]) == found.history_["round"][-1]
    assert set(found.history_) == {"round", "objective", "optimality", "eta", "counted"}
    losses = (found.predict(X) - Y) ** 2 / 2
    objective = losses.mean() + 0.1 * np.abs(found.coef_).sum()
    assert found.objective_ == pytest.approx(objective, rel=1e-12)


def test_rounds_used_up_are_warned_about_as_in_scikit_learn():
    with pytest.warns(exceptions.ConvergenceWarning, match="after 3 rounds: optimality .* above"):
        found = FederatedLinearRegression(max_iter=3).fit(X, Y, IDS)
    assert not found.converged_ and found.n_iter_ == 3


def test_probabilities_are_those_of_the_scores():
    y = np.digitize(Y, [100, 200])
    found = FederatedLogisticRegression(l1=0.05).fit(X, np.array(["low", "middle", "high"])[y], IDS)
    assert found.coef_.shape == (3, 10) and found.classes_.tolist() == ["high", "low", "middle"]
    each, z = found.predict_proba(X), found.decision_function(X)
    np.testing.assert_allclose(each, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rtol=1e-12)
    assert (found.predict(X) == found.classes_[each.argmax(axis=1)]).all()


def test_groups_come_and_go_as_a_whole():
    groups = ["a"] * 4 + ["b"] * 3 + ["c"] * 3
    found = FederatedGroupLasso(15.0, groups, standardise=True).fit(X, Y, IDS)
    used = [np.count_nonzero(found.coef_[np.array(groups) == name]) for name in "abc"]
    assert 0 in used and any(used)
    assert all(n in (0, groups.count(name)) for n, name in zip(used, "abc", strict=True))


def test_targets_that_share_a_direction_get_a_model_of_low_rank():
    rng = np.random.default_rng(0)
    targets = np.outer(Y / 100, [1.0, -1.0, 0.5]) + 0.1 * rng.normal(size=(len(Y), 3))
    found = FederatedLowRankRegression(0.02).fit(X, targets, IDS)
    assert found.coef_.shape == (3, 10) and np.linalg.matrix_rank(found.coef_, 1e-8) == 1
    assert found.predict(X).shape == targets.shape


@pytest.mark.parametrize("by", ["rows", "sites"])
def test_the_weight_chosen_gives_the_model_kept(by):
    found = FederatedLinearRegressionCV(points=4, folds=2, by=by).fit(X, Y, IDS)
    at = FederatedLinearRegression(found.weight_).fit(X, Y, IDS)
    np.testing.assert_array_equal(found.coef_, at.coef_)
    assert found.weight_ in found.path_weights_ and not found.path_coef_[0].any()
    assert found.cv_losses_.shape == (2 if by == "rows" else 3, 4)
    assert found.path_coef_.shape == (4, 10) and found.stability_.shape == (4, 10)
    k = found.path_weights_.tolist().index(found.weight_)
    assert found.cv_mean_[k] <= found.cv_mean_.min() + found.cv_error_[found.cv_mean_.argmin()]


@pytest.mark.parametrize(
    ("estimator", "arguments", "words"),
    [
        (FederatedGroupLasso(groups=["a", "b"]), (X, Y), "groups must hold 10 labels, .* got 2"),
        (FederatedLinearRegression(), (X, Y, IDS[1:]), "inconsistent numbers of samples"),
        (FederatedLinearRegression(l1=-1.0), (X, Y), "'l1' must be a non-negative number"),
        (FederatedLinearRegressionCV(by="sites"), (X, Y), "need two sites or more"),
        (FederatedLinearRegressionCV(rule="best"), (X, Y), "'rule' must be one of 1se, min"),
        (FederatedLogisticRegression(), (X, 0 * Y), "y has one class, .*; two or more are needed"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(estimator, arguments, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(*arguments)


def test_there_must_be_sites():
    with pytest.raises(ValueError, match="There are no sites"):
        FederatedLinearRegression().fit_sites([])
