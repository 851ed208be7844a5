"""An optimum at infinity is said by every driver; one outlier in a feature is not taken for it."""

import numpy as np
import pytest

from proxfl.precision import precision
from proxfl.tables import Table
from proxfl.train.drivers.endless import AT_INFINITY
from proxfl.train.path import ready
from proxfl.train.spec import Spec
from proxfl.train.train import ConvergenceWarning, train
from proxfl.train.walk import solve

ROWS = 40
METHODS = ("newton", "decoupled")


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(ROWS, 4))
    return A, (A[:, 0] + rng.logistic(size=ROWS) > 0) * 1.0


def separable():
    A, _ = drawn()
    return A, A[:, 1] > 0


def separable_in_part():
    """One feature singles out rows of one class; the others overlap."""
    A, y = drawn()
    some = np.arange(ROWS) < 5
    return np.column_stack([A, some]), np.where(some, 1.0, y)


def none_of_a_kind():
    """Counts of which those in one group are all zero."""
    A, y = drawn()
    some = np.arange(ROWS) < 5
    return np.column_stack([A, some]), np.where(some, 0.0, 3 * y)


ENDLESS = {
    "separable": ("logistic", separable),
    "separable in part": ("logistic", separable_in_part),
    "no counts in a group": ("poisson", none_of_a_kind),
}


def site(A, y):
    names = tuple(f"x{j}" for j in range(A.shape[1]))
    return [Table("a", "", "y", names, A, y * 1.0, "")]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ENDLESS)
def test_an_optimum_at_infinity_is_said_and_not_certified(name, method):
    """By drivers of sites, and by those that solve inside one process."""
    loss, data = ENDLESS[name]
    spec, sites = Spec(target="y", loss=loss, algorithm=method), site(*data())
    with pytest.warns(ConvergenceWarning, match="optimum is at infinity"):
        fit = train(spec, sites)
    assert fit.solution.obstacle == AT_INFINITY and not fit.solution.converged
    with precision(np.float64):
        found, _ = solve(ready(spec, sites), spec)
    assert found.obstacle == AT_INFINITY and not found.converged
    assert train(spec.replace(l2=1e-3), sites).solution.converged


@pytest.mark.parametrize("seed", range(4))
def test_an_outlier_in_a_feature_has_its_optimum(seed):
    A, y = drawn(seed)
    A[7, 2] = 1e8
    fits = [train(Spec(target="y", loss="logistic", algorithm=m), site(A, y)) for m in METHODS]
    assert all(fit.solution.converged for fit in fits)
    one, other = (fit.solution.objective for fit in fits)
    assert one == pytest.approx(other, rel=1e-6)
    assert fits[0].ledger["newton"].exchanges <= 40


def test_the_last_round_that_there_is_certifies_nothing_without_an_optimum():
    spec = Spec(target="y", loss="logistic", algorithm="newton", rounds=16)
    with pytest.warns(ConvergenceWarning, match="optimum is at infinity"):
        assert train(spec, site(*separable())).solution.optimality <= spec.tol


def test_a_start_far_from_a_finite_optimum_is_not_taken_for_the_way_to_infinity():
    """Gradients of exponentials fall by many powers of ten, by one factor in every step."""
    A = 70 + drawn()[0][:, :1]
    spec = Spec(target="y", loss="poisson", algorithm="newton", simplex=1.0, tol=1e-10)
    assert train(spec, site(A, np.arange(ROWS) % 3)).solution.converged
