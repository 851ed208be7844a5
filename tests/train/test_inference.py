"""Standard errors are those of statsmodels on the pooled rows; what has none is refused."""

import dataclasses

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.duration.hazard_regression import PHReg

from proxfl.errors import InputError
from proxfl.tables import Table
from proxfl.train.spec import Spec
from proxfl.train.train import train

NAMES = ("a", "b", "c")


def sites(loss, rows=(40, 25, 35), seed=0):
    """Sites that differ, features in different units."""
    rng, made = np.random.default_rng(seed), []
    for i, count in enumerate(rows):
        A = rng.normal(size=(count, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0 * i, 1.0]
        z = 0.5 * A[:, 0] + 0.005 * A[:, 1] - 0.3
        y = {
            "logistic": (z + rng.logistic(size=count) > 0) * 1.0,
            "poisson": rng.poisson(np.exp(z)) * 1.0,
        }.get(loss, z + rng.normal(size=count))
        made.append(Table(f"s{i}", "", "y", NAMES, A, y, ""))
    return made


def reference(loss, tables, intercept):
    A, y = (np.concatenate([getattr(t, name) for t in tables]) for name in ("A", "y"))
    A = np.column_stack([A, np.ones(len(A))]) if intercept else A
    if loss == "squared":
        model, how = sm.OLS(y, A), {}
    else:
        family = {"logistic": sm.families.Binomial(), "poisson": sm.families.Poisson()}[loss]
        model, how = sm.GLM(y, A, family=family), {"tol": 1e-14, "maxiter": 200}
        # Its standard errors are those of the step before the last: so the last stays in place.
        how["start_params"] = model.fit(**how).params
    return model.fit(**how), model.fit(cov_type="HC0", **how)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_standard_errors_are_those_of_statsmodels_on_the_pooled_rows(loss, intercept):
    tables = sites(loss)
    spec = Spec(target="y", loss=loss, inference=True, intercept=intercept, tol=1e-12)
    found = train(spec, tables).inference
    plain, robust = reference(loss, tables, intercept)
    assert found.names == (*NAMES, *(["intercept"] if intercept else []))
    np.testing.assert_allclose(found.coef, plain.params, rtol=1e-8)
    np.testing.assert_allclose(found.se, plain.bse, rtol=1e-8)
    np.testing.assert_allclose(found.robust_se, robust.bse, rtol=1e-8)
    np.testing.assert_allclose([found.lower, found.upper], plain.conf_int().T, rtol=1e-8)
    np.testing.assert_allclose(found.z, plain.tvalues, rtol=1e-8)
    np.testing.assert_allclose(found.p, plain.pvalues, rtol=1e-8)


def weighted(tables, weights):
    columns = np.split(weights, np.cumsum([t.rows for t in tables])[:-1])
    return [
        Table(t.name, "", "y", NAMES, t.A, t.y, "", 0, {"w": w})
        for t, w in zip(tables, columns, strict=True)
    ]


def weighing(loss, **more):
    return Spec(target="y", loss=loss, inference=True, tol=1e-12, row_weights="w", **more)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_errors_of_weighted_rows_are_those_of_statsmodels_on_the_pooled_rows(loss):
    """As numbers of rows, and as what sampling gave each row to count."""
    tables = sites(loss)
    w = np.random.default_rng(2).exponential(3.0, size=100)
    found = train(weighing(loss), weighted(tables, w)).inference
    A, y = (np.concatenate([getattr(t, name) for t in tables]) for name in ("A", "y"))
    A, families = np.column_stack([A, np.ones(len(A))]), sm.families
    binomial, poisson, normal = families.Binomial(), families.Poisson(), families.Gaussian()
    family = {"logistic": binomial, "poisson": poisson, "squared": normal}[loss]
    how = {"tol": 1e-14, "maxiter": 200}
    counted, drawn = sm.GLM(y, A, family, freq_weights=w), sm.GLM(y, A, family, var_weights=w)
    plain = counted.fit(**how)
    np.testing.assert_allclose(found.coef, plain.params, rtol=1e-8)
    np.testing.assert_allclose(found.se, plain.bse, rtol=1e-8)
    np.testing.assert_allclose(found.robust_se, counted.fit(cov_type="HC0", **how).bse, rtol=1e-8)
    np.testing.assert_allclose(found.sampling_se, drawn.fit(cov_type="HC0", **how).bse, rtol=1e-8)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "huber"])
def test_a_row_of_weight_two_has_the_errors_of_two_rows(loss):
    tables, rng = sites(loss), np.random.default_rng(3)
    often = rng.integers(0, 4, size=100)
    found = train(weighing(loss), weighted(tables, often * 1.0)).inference
    each = np.split(often, np.cumsum([t.rows for t in tables])[:-1])
    twice = [
        Table(t.name, "", "y", NAMES, np.repeat(t.A, n, axis=0), np.repeat(t.y, n), "")
        for t, n in zip(tables, each, strict=True)
    ]
    same = train(weighing(loss).replace(row_weights=None), twice).inference
    assert same.sampling_se is None and "sampling_se" not in same.by_name()["a"]
    for name in ("coef", "se", "robust_se", "lower", "p"):
        if getattr(same, name) is not None:
            np.testing.assert_allclose(getattr(found, name), getattr(same, name), rtol=1e-7)


def test_errors_of_sampling_do_not_depend_on_the_unit_of_weights():
    w = np.random.default_rng(4).exponential(size=100)
    one, other = (
        train(weighing("logistic"), weighted(sites("logistic"), unit * w)).inference
        for unit in (1.0, 10.0)
    )
    np.testing.assert_allclose(one.sampling_se, other.sampling_se, rtol=1e-8)
    np.testing.assert_allclose(one.se, np.sqrt(10) * other.se, rtol=1e-8)
    with pytest.raises(InputError, match="by number and by weight, got 1 rows"):
        train(weighing("logistic"), weighted(sites("logistic"), w / w.sum()))


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_hazard_ratios_have_the_standard_errors_of_a_stratified_model(ties):
    """Those of statsmodels with each site as a stratum; there are no robust ones."""
    rng, made = np.random.default_rng(1), []
    for i, t in enumerate(sites("squared")):
        time = np.ceil(8 * rng.exponential(np.exp(-0.4 * t.A[:, 0])))
        y = np.column_stack([time, rng.random(t.rows) < 0.7])
        made.append(Table(f"s{i}", "", ("time", "event"), NAMES, t.A, y, ""))
    spec = Spec(loss="cox", time="time", event="event", cox_ties=ties, tol=1e-12)
    found = train(spec.replace(inference=True), made).inference
    A, y = (np.concatenate([getattr(t, name) for t in made]) for name in ("A", "y"))
    strata = np.repeat(range(len(made)), [t.rows for t in made])
    spread = A.std(axis=0)  # statsmodels stops by steps that do not know of units
    about = {"status": y[:, 1], "strata": strata, "ties": ties}
    plain = PHReg(y[:, 0], A / spread, **about).fit(disp=False)
    np.testing.assert_allclose(found.coef, plain.params / spread, rtol=1e-7)
    np.testing.assert_allclose(found.se, plain.bse / spread, rtol=1e-7)
    np.testing.assert_allclose(found.p, plain.pvalues, rtol=1e-7)
    np.testing.assert_allclose(np.exp(found.lower), np.exp(plain.conf_int()[:, 0] / spread), 1e-7)
    assert found.robust_se is None
    with pytest.raises(InputError, match="rows that count alike only"):
        ones = [dataclasses.replace(t, beside={"w": np.ones(t.rows)}) for t in made]
        train(spec.replace(inference=True, row_weights="w", cox_ties="breslow"), ones)
    with pytest.raises(InputError, match="without a penalty only"):
        train(spec.replace(inference=True, l1=0.1), made)


def test_every_method_has_the_same_standard_errors():
    tables, spec = sites("logistic"), Spec(target="y", loss="logistic", inference=True, tol=1e-10)
    newton, other = (train(spec.replace(algorithm=a), tables) for a in ("newton", "decoupled"))
    np.testing.assert_allclose(newton.inference.se, other.inference.se, rtol=1e-6)


def test_without_a_likelihood_only_robust_errors_are_told():
    found = train(Spec(target="y", loss="huber", inference=True), sites("huber")).inference
    assert found.se is None and (found.robust_se > 0).all()
    assert {line["se"] for line in found.by_name().values()} == {None}


def test_a_little_penalty_is_undone():
    """One Newton step from the penalised model is near the model without a penalty."""
    tables = sites("squared")
    free = train(Spec(target="y", loss="squared", inference=True, tol=1e-10), tables).inference
    pulled = Spec(target="y", loss="squared", inference=True, l1=0.05, standardise=True, tol=1e-10)
    found = train(pulled, tables).inference
    assert found.desparsified and not free.desparsified
    np.testing.assert_allclose(found.coef, free.coef, rtol=1e-7)  # the loss is quadratic


REFUSED = {
    "several outputs": ({"loss": "softmax"}, "one output"),
    "another penalty": ({"loss": "logistic", "l2": 0.1}, "not known with l2"),
    "weights": ({"loss": "logistic", "weights": "uniform"}, "count alike"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_intervals_is_refused(name):
    options, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        train(Spec(target="y", inference=True, **options), sites("logistic"))


def test_collinear_features_have_no_standard_errors_and_few_rows_none():
    tables = sites("squared")
    twice = [
        Table(t.name, "", "y", (*NAMES, "d"), np.column_stack([t.A, t.A[:, 0]]), t.y, "")
        for t in tables
    ]
    trained = []
    with pytest.raises(InputError, match="no standard errors"):
        watched = Spec(target="y", loss="squared", inference=True)
        train(watched, twice, watch=trained.append)
    assert not trained
    with pytest.raises(InputError, match="more rows than coefficients"):
        train(Spec(target="y", loss="squared", inference=True), sites("squared", (2, 2)))
