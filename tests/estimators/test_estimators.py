"""The estimators keep scikit-learn's promises, and ours."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn import clone, datasets, exceptions
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import parametrize_with_checks

from proxfl.estimators import (
    FederatedCoxRegression,
    FederatedGroupLasso,
    FederatedGroupLassoCV,
    FederatedHuberRegression,
    FederatedLinearRegression,
    FederatedLinearRegressionCV,
    FederatedLogisticRegression,
    FederatedLogisticRegressionCV,
    FederatedLowRankRegression,
    FederatedLowRankRegressionCV,
    FederatedPoissonRegression,
)
from proxfl.tables import Table
from proxfl.train.spec import Spec
from proxfl.train.train import train

SHORT = {"points": 2, "folds": 2, "rule": "min", "tol": 1e-3}

ESTIMATORS = [
    FederatedLinearRegression(),
    FederatedLogisticRegression(),
    FederatedGroupLasso(),
    FederatedLowRankRegression(),
    FederatedHuberRegression(),
    FederatedPoissonRegression(tol=1e-10),
    FederatedCoxRegression(tol=1e-10),
    FederatedLinearRegressionCV(**SHORT),
    FederatedLogisticRegressionCV(**SHORT),
    FederatedGroupLassoCV(**SHORT),
    FederatedLowRankRegressionCV(**SHORT),
]


# Folds deal rows: a row of weight two is in one fold, two equal rows may be in two. Of the
# estimators that choose by folds, these find another model on the data of the check.
BY_ROWS = FederatedLogisticRegressionCV, FederatedLowRankRegressionCV


def expected_failures(estimator):
    checks = [f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")]
    return dict.fromkeys(checks, "folds deal rows") if isinstance(estimator, BY_ROWS) else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
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
        found = FederatedLinearRegression(algorithm="decoupled", max_iter=3).fit(X, Y, IDS)
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
        (FederatedLinearRegression(l2=0.1, inference=True), (X, Y), "not known with l2"),
        (
            FederatedLinearRegression(inference=True, site_weights="uniform"),
            (X, Y, IDS),
            "count alike",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(estimator, arguments, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(*arguments)


@pytest.mark.parametrize("sites", [[], [SITES[0], (*SITES[1], np.ones(len(SITES[1][1])))]])
def test_there_must_be_sites_of_one_form(sites):
    with pytest.raises(ValueError, match="Give at least one site, all as"):
        FederatedLinearRegression().fit_sites(sites)


def test_weights_of_rows_are_repetitions_at_every_client():
    times = np.arange(len(Y)) % 3
    weighted = FederatedHuberRegression(0.1, tol=1e-10).fit(X, Y, IDS, times)
    repeated = [(np.repeat(x, w, axis=0), np.repeat(y, w)) for x, y, w in zip_sites(times)]
    expected = FederatedHuberRegression(0.1, tol=1e-10).fit_sites(repeated)
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-7)
    triples = FederatedHuberRegression(0.1, tol=1e-10).fit_sites(zip_sites(times))
    np.testing.assert_array_equal(weighted.coef_, triples.coef_)


def test_rows_of_no_weight_are_no_rows():
    """Not even a class or a client is in them, nor must they be numbers."""
    y, odd = np.digitize(Y, [100, 200]), X.copy()
    held = (y < 2) & (IDS > 0)
    odd[~held] = np.nan
    fit = lambda *about: FederatedLogisticRegression(site_weights="uniform").fit(*about)
    found, expected = fit(odd, y, IDS, 1.0 * held), fit(X[held], y[held], IDS[held])
    assert found.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_intercepts_of_classes_have_mean_zero():
    """Only their differences are known: which number they have in common is a convention."""
    y = np.digitize(Y, [100, 200])
    found = FederatedLogisticRegression(standardise=True).fit(X + 1, y, IDS)
    assert found.intercept_.mean() == pytest.approx(0, abs=1e-14 * np.abs(found.intercept_).max())


SOME = pd.DataFrame(X[:, :3], columns=["age", "sex", "bmi"])
WITH_ERRORS = {
    "logistic": (FederatedLogisticRegression(0.01), 1.0 * (Y > 140)),
    "squared": (FederatedLinearRegression(0.0), Y),
    "huber": (FederatedHuberRegression(0.0, delta=30.0), Y),
    "poisson": (FederatedPoissonRegression(0.0), np.round(Y / 20)),
}


@pytest.mark.parametrize("loss", WITH_ERRORS)
def test_standard_errors_are_those_of_the_command_line(loss):
    estimator, y = WITH_ERRORS[loss]
    found = clone(estimator).set_params(inference=True, tol=1e-10).fit(SOME, y, IDS)
    assert not hasattr(clone(estimator).fit(SOME, y, IDS), "inference_")
    delta = {"huber_delta": 30.0} if loss == "huber" else {}
    spec = Spec(target="y", loss=loss, l1=estimator.l1, inference=True, tol=1e-10, **delta)
    names, A = tuple(SOME.columns), SOME.to_numpy()
    tables = [Table(str(k), "", "y", names, A[IDS == k], y[IDS == k], "") for k in range(3)]
    fit = train(spec, tables)
    known = fit.inference.by_name()
    assert list(found.inference_) == list(known) == [*names, "intercept"]
    tables = (pd.DataFrame(told, dtype=float) for told in (found.inference_, known))
    pd.testing.assert_frame_equal(*tables, rtol=1e-7)
    asked = ("agreement", "newton", "hessian", "information")
    assert found.n_exchanges_ == sum(fit.ledger[kind].exchanges for kind in asked)


def zip_sites(times):
    return [(X[IDS == k], Y[IDS == k], times[IDS == k]) for k in range(3)]


def test_counts_and_survival_are_those_of_statsmodels():
    counts = np.round(Y / 20)
    found = FederatedPoissonRegression(0.0, tol=1e-10).fit(X, counts, IDS)
    known = sm.GLM(counts, sm.add_constant(X), family=sm.families.Poisson()).fit(tol=1e-14)
    np.testing.assert_allclose([found.intercept_, *found.coef_], known.params, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.predict(X), known.fittedvalues, rtol=1e-7)
    event = np.arange(len(Y)) % 4 > 0
    found = FederatedCoxRegression(0.0, ties="efron", tol=1e-10)
    known = sm.PHReg(Y, X, event.astype(int), strata=IDS, ties="efron").fit(tol=1e-12)
    pairs = np.array(list(zip(event, Y, strict=True)), [("event", bool), ("time", float)])
    for y in (pairs, np.column_stack([event, Y]), np.where(event, Y, -Y)):
        found.fit(X, y, IDS)
        np.testing.assert_allclose(found.coef_, known.params, rtol=1e-6, atol=1e-6)
        assert 0.5 < found.score(X, y) < 1
    with pytest.raises(ValueError, match="nothing to learn"):
        found.fit(X, -Y)
