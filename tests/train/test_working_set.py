"""Newton's method on some of many coefficients: the optimum, whatever the set, and never dense."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import dump_svmlight_file

from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.problem.sparse import SparseMatrix
from proxfl.tables import Table
from proxfl.train import train as training
from proxfl.train.drivers import working_set
from proxfl.train.drivers.from_gradients import Memory, bfgs
from proxfl.train.federation import FAR
from proxfl.train.local import total
from proxfl.train.method import FEW, Along, method_for
from proxfl.train.spec import Spec
from proxfl.train.train import begin, train

D, ROWS = FEW + 20, 40
L1 = 0.004


def drawn(rows=2 * ROWS, features=D):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.05)
    z = 3 * A[:, :12].sum(axis=1) + rng.logistic(size=rows)
    return sparse.csr_matrix(A), (z > 0) * 1.0


def sites(A, y):
    names = tuple(f"x{j}" for j in range(A.shape[1]))
    parts = np.array_split(np.arange(len(y)), 2)
    return [Table(f"s{i}", "", "y", names, A[p], y[p], "") for i, p in enumerate(parts)]


A, Y = drawn()
SPEC = Spec(target="y", loss="logistic", l1=L1, algorithm="newton", tol=1e-9)


@pytest.fixture(scope="module")
def fit():
    return train(SPEC, sites(A, Y))


def violation(model, l1):
    """How far minus the gradient of the pooled loss is from l1 times a subgradient."""
    slope = (expit(A @ model.coef + model.intercept) - Y) / len(Y)
    pull = A.T @ slope
    at_zero = np.maximum(np.abs(pull) - l1, 0)
    return np.append(
        np.where(model.coef == 0, at_zero, pull + l1 * np.sign(model.coef)), slope.sum()
    )


def test_it_ends_at_the_optimum_of_the_pooled_rows(fit):
    assert fit.solution.converged and 5 < np.count_nonzero(fit.model.coef) < 80
    start = np.abs(A.T @ (0.5 - Y)).max() / len(Y)
    assert np.abs(violation(fit.model, L1)).max() <= 1e-7 * start


def test_hessians_are_asked_for_on_some_features_and_not_in_every_exchange(fit):
    ups = np.diff([traffic.up for traffic in fit.traffic], prepend=0) / 2
    plain = 8 * (D + 12) + 1
    assert min(ups[1:]) == plain and max(ups) < 8 * (200 * 201 / 2) + plain


def test_it_takes_a_fifth_of_the_exchanges_of_algorithm_1_and_no_more_bytes(fit):
    other = train(SPEC.replace(algorithm="decoupled"), sites(A, Y))
    there, here = total(fit.ledger), total(other.ledger)
    assert 5 * there.exchanges <= here.exchanges
    assert there.up + there.down <= here.up + here.down


def test_dense_features_give_the_same_model(fit):
    dense = train(SPEC, sites(A.toarray(), Y))
    np.testing.assert_allclose(dense.model.coef, fit.model.coef, atol=1e-6)


def test_a_set_that_is_too_small_leaves_the_model_to_gradients(fit, monkeypatch):
    monkeypatch.setattr(working_set, "MOST", 8)
    few = train(SPEC.replace(tol=1e-4), sites(A, Y))
    assert few.solution.converged
    assert {int(few.solution.state.set.held), int(few.solution.state.asked)} == {0}


def test_an_interrupted_run_ends_in_the_same_bits(fit, tmp_path):
    def stop(record):
        if record.round == 5:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint.npz"
    with pytest.raises(KeyboardInterrupt):
        train(SPEC, sites(A, Y), path, stop)
    np.testing.assert_array_equal(train(SPEC, sites(A, Y), path).model.coef, fit.model.coef)


def test_the_matrix_of_pairs_maps_the_last_move_to_its_turn():
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(3, 6))
    H = np.diag(np.arange(1.0, 7.0))
    padded = lambda pairs: jnp.asarray(np.vstack([np.zeros((2, 6)), pairs]))
    with precision(np.float64):
        times = bfgs(Memory(padded(moves), padded(moves @ H)))
        np.testing.assert_allclose(times(moves[-1]), H @ moves[-1], rtol=1e-12)
        whole = np.stack([times(e) for e in jnp.eye(6)])
    np.testing.assert_allclose(whole, whole.T, atol=1e-12)
    assert np.linalg.eigvalsh(whole).min() > 0


def test_files_with_few_values_stay_sparse_from_reading_to_predicting(tmp_path, monkeypatch):
    def never(table):
        raise AssertionError("a sparse table was written out")

    names = [tmp_path / "a.libsvm", tmp_path / "b.libsvm"]
    for path, part in zip(names, sites(A, Y), strict=True):
        dump_svmlight_file(part.A, part.y, str(path), zero_based=False)
    monkeypatch.setattr(Table, "dense", property(never))
    spec = SPEC.replace(sites=tuple(map(str, names)), algorithm="auto", tol=1e-4)
    job = begin(spec)
    with precision(np.float64):
        weights = np.array(job.agreement.weights)
        made = training.shards_for(job.spec, job.tables, job.agreement, weights)
        assert isinstance(made.examples[0], SparseMatrix)
    found = training.run(job)
    assert found.solution.converged and not any(found.agreement.centre)


@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("row_weights", [None, "w"])
def test_moments_of_sparse_columns_are_those_of_dense_ones(standardise, row_weights):
    """Missing values and weights of rows included; a column without zeros, too."""
    held = A[:20, :30].tolil()
    held[:, 3] = 7.0
    held[4, 3] = held[5, 9] = np.nan
    weights = {"w": np.arange(20.0)}
    spec = SPEC.replace(missing="mean", standardise=standardise, row_weights=row_weights)
    agreed = []
    for form in (held.tocsr(), held.toarray()):
        one = Table("s", "", "y", tuple(f"x{j}" for j in range(30)), form, Y[:20], "", 0, weights)
        agreed.append(begin(spec, [one]).agreement)
    np.testing.assert_allclose(agreed[0].fill, agreed[1].fill, rtol=1e-12, atol=1e-15)
    if standardise:
        np.testing.assert_allclose(agreed[0].scale, agreed[1].scale, rtol=1e-12)


def test_working_sets_are_chosen_for_sparse_models_of_many_coefficients():
    wide = begin(SPEC, sites(*drawn(features=3000))).agreement
    auto = SPEC.replace(algorithm="auto")
    assert method_for(auto, wide, FAR).name == "newton"
    assert "too large" in method_for(auto, wide, FAR, Along(50, 6)).reason
    assert "too large" in method_for(auto.replace(l1=0.0, l2=0.1), wide, FAR).reason
    with pytest.raises(InputError, match="too large"):
        train(SPEC.replace(l1=0.0), sites(*drawn(features=3000)))
