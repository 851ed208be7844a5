"""Clients are metadata: scikit-learn's own tools pass them on, and take their folds by row."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import ElasticNet
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxfl.estimators import (
    FederatedCoxRegression,
    FederatedHuberRegression,
    FederatedLinearRegression,
    FederatedLinearRegressionCV,
    FederatedLogisticRegression,
    FederatedPoissonRegression,
)
from tests.estimators.test_estimators import IDS, X, Y

WEIGHTS = 1.0 + np.arange(len(Y)) % 3


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def asking(**options):
    """By sites of equal weight, so that who is at which site makes a difference."""
    model = FederatedLinearRegression(site_weights="uniform", **options)
    asked = model.set_fit_request(client_ids=True, sample_weight=True)
    return asked.set_score_request(sample_weight=False)


def test_a_pipeline_passes_clients_and_weights_on():
    ids = np.minimum(IDS, 1)  # one site twice as large
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    piped = make_pipeline(scaler, asking(l1=0.1))
    piped.fit(X, Y, client_ids=ids, sample_weight=WEIGHTS)
    direct = asking(l1=0.1).fit(StandardScaler().fit_transform(X), Y, ids, WEIGHTS)
    np.testing.assert_array_equal(piped[-1].coef_, direct.coef_)
    other = asking(l1=0.1).fit(StandardScaler().fit_transform(X), Y)
    assert not np.allclose(direct.coef_, other.coef_)


def test_a_search_and_its_folds_pass_clients_on():
    ids = np.minimum(IDS, 1)
    search = GridSearchCV(asking(), {"l1": [0.05, 5.0]}, cv=2)
    search.fit(X, Y, client_ids=ids, sample_weight=WEIGHTS)
    best = asking(**search.best_params_).fit(X, Y, ids, WEIGHTS)
    np.testing.assert_array_equal(search.best_estimator_.coef_, best.coef_)
    scores = cross_validate(
        asking(l1=0.1), X, Y, cv=2, params={"client_ids": ids, "sample_weight": WEIGHTS}
    )
    half = len(Y) // 2
    first = asking(l1=0.1).fit(X[half:], Y[half:], ids[half:], WEIGHTS[half:])
    assert scores["test_score"][0] == pytest.approx(first.score(X[:half], Y[:half]), rel=1e-9)


TIMES = np.where(np.arange(len(Y)) % 3 > 0, 1.0, -1.0) * np.ceil(1000 / Y)  # below 0: censored
KINDS = {
    FederatedLinearRegression: Y,
    FederatedHuberRegression: Y,
    FederatedLogisticRegression: Y > 140,
    FederatedPoissonRegression: Y // 50,
    FederatedCoxRegression: TIMES,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_fitted_and_judged_by_weights_in_a_pipeline_under_folds(kind):
    """Also where the weights of rows say which of them there are at all."""
    model = kind(l1=0.1, site_weights="uniform")
    model.set_fit_request(client_ids=True, sample_weight=True)
    model.set_score_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    asked = {"client_ids": np.minimum(IDS, 1), "sample_weight": WEIGHTS - 1}
    target, ready = KINDS[kind], {"cv": KFold(2), "error_score": "raise"}
    piped = make_pipeline(scaler, model)
    scores = cross_val_score(piped, X, target, params=asked, **ready)
    search = GridSearchCV(piped, {f"{piped.steps[-1][0]}__l2": [0.0]}, **ready)
    found = search.fit(X, target, **asked).cv_results_
    np.testing.assert_array_equal(found["mean_test_score"], scores.mean())
    half = len(Y) // 2
    rows, out = np.arange(half, len(Y)), np.arange(half)
    scaled = StandardScaler().fit(X[rows]).transform(X)
    first = clone(model).fit(scaled[rows], target[rows], *(a[rows] for a in asked.values()))
    often = np.repeat(out, asked["sample_weight"][out].astype(int))
    assert first.score(scaled[often], target[often]) == pytest.approx(scores[0], rel=1e-9)


def test_clients_that_nobody_asked_for_are_refused():
    with pytest.raises(Exception, match="client_ids"):
        make_pipeline(StandardScaler(), FederatedLinearRegression()).fit(X, Y, client_ids=IDS)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_features_give_the_model_of_dense_ones(form):
    held = np.where(np.abs(X) > 0.04, X, 0.0)
    dense = FederatedLinearRegression(l1=0.1).fit(held, Y, IDS)
    found = FederatedLinearRegression(l1=0.1).fit(form(held), Y, IDS)
    np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-9)
    np.testing.assert_allclose(found.predict(form(held)), dense.predict(held), rtol=1e-9)


def test_an_elastic_net_path_keeps_its_other_weight():
    """`l1` is chosen along the path; with `l2` beside it each point is that elastic net."""
    found = FederatedLinearRegressionCV(l2=0.01, points=3, folds=2, tol=1e-9).fit(X, Y, IDS)
    at = FederatedLinearRegression(found.weight_, l2=0.01, tol=1e-9).fit(X, Y, IDS)
    np.testing.assert_allclose(found.coef_, at.coef_, rtol=1e-6, atol=1e-6)


def test_an_elastic_net_path_keeps_a_ratio_of_its_weights():
    """`l1_ratio` as in scikit-learn: both weights go down together."""
    found = FederatedLinearRegressionCV(l1_ratio=0.5, points=3, folds=2, tol=1e-9).fit(X, Y, IDS)
    weight = found.weight_
    at = FederatedLinearRegression(0.5 * weight, l2=0.5 * weight, tol=1e-9).fit(X, Y, IDS)
    np.testing.assert_allclose(found.coef_, at.coef_, rtol=1e-6, atol=1e-6)
    own = ElasticNet(weight, l1_ratio=0.5, tol=1e-12, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(found.coef_, own.coef_, rtol=1e-6, atol=1e-6)
