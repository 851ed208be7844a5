"""Proxes against a conic solver that is given only the formula of g.

Clarabel comes within 1e-9 on all of these but sums with group norms, where it stalls near 1e-7;
sums are also compared, to 1e-9, with Dykstra's alternation between the proxes of their parts.
"""

import warnings

import cvxpy as cp
import jax
import numpy as np
import pytest

from proxfl.prox import Then
from tests.cases_prox import centre, labels, ramp, regularisers

RAMP, CENTRE, LABELS = np.asarray(ramp), np.asarray(centre), np.asarray(labels)


def group_norms(u, factors, labels=LABELS):
    return sum(w * cp.norm(u[labels == k]) for k, w in enumerate(factors))


def roots(labels, weight):
    return [weight * np.sqrt(np.sum(labels == k)) for k in range(labels.max() + 1)]


def columns(u):
    return 0.5 * 2 * sum(cp.norm(u[:, k]) for k in range(3))


SIZES = roots(LABELS, 0.6)
# What g adds to the cost, and the constraints it stands for.
formulas = {
    "ridge": lambda u: (0.35 * cp.sum_squares(u), []),
    "l1": lambda u: (0.7 * cp.norm1(u), []),
    "l1_of_matrix": lambda u: (0.7 * cp.sum(cp.abs(u)), []),
    "l1_weighted": lambda u: (RAMP @ cp.abs(u), []),
    "l2": lambda u: (1.3 * cp.norm(u), []),
    "linf": lambda u: (1.3 * cp.max(cp.abs(u)), []),
    "linf_of_matrix": lambda u: (0.4 * cp.max(cp.abs(u)), []),
    "relu": lambda u: (0.7 * cp.sum(cp.pos(u)), []),
    "groups": lambda u: (group_norms(u, SIZES), []),
    "groups_weighted": lambda u: (group_norms(u, [0.5, 0.0, 1.5]), []),
    "groups_of_matrix": lambda u: (columns(u), []),
    "nuclear": lambda u: (0.9 * cp.normNuc(u), []),
    "nuclear_wide": lambda u: (0.9 * cp.normNuc(u), []),
    "variation": lambda u: (0.6 * cp.sum(cp.abs(cp.diff(u))), []),
    "variation_weighted": lambda u: (RAMP[1:] @ cp.abs(cp.diff(u)), []),
    "box": lambda u: (0, [u >= -0.5, u <= 1.25]),
    "box_uneven": lambda u: (0, [u >= -RAMP]),
    "nonneg": lambda u: (0, [u >= 0]),
    "simplex": lambda u: (0, [u >= 0, cp.sum(u) == 1]),
    "simplex_large": lambda u: (0, [u >= 0, cp.sum(u) == 7]),
    "l1_ball": lambda u: (0, [cp.norm1(u) <= 2]),
    "l2_ball": lambda u: (0, [cp.norm(u, "fro") <= 2]),
    "linf_ball": lambda u: (0, [cp.abs(u) <= 0.75]),
    "scaled": lambda u: (0.4 * 1.3 * cp.max(cp.abs(u)), []),
    "shifted": lambda u: (0.7 * cp.norm1(u - CENTRE), []),
    "groups_ridge": lambda u: (group_norms(u, SIZES) + 0.15 * cp.sum_squares(u), []),
    "elastic_net": lambda u: (0.5 * cp.norm1(u) + 0.15 * cp.sum_squares(u), []),
    "l1_nonneg": lambda u: (0.7 * cp.norm1(u), [u >= 0]),
    "l1_box": lambda u: (RAMP @ cp.abs(u), [u >= 0.25, u <= 2]),
    "l1_box_ridge": lambda u: (
        0.4 * cp.norm1(u) + 0.25 * cp.sum_squares(u),
        [u >= -1, u <= 2],
    ),
    "sparse_groups": lambda u: (0.4 * cp.norm1(u) + group_norms(u, SIZES), []),
    "nonneg_groups": lambda u: (group_norms(u, SIZES), [u >= 0]),
    "nonneg_sparse_groups": lambda u: (0.4 * cp.norm1(u) + group_norms(u, SIZES), [u >= 0]),
    "fused_lasso": lambda u: (0.4 * cp.norm1(u) + 0.6 * cp.norm1(cp.diff(u)), []),
    "fused_box": lambda u: (0.6 * cp.norm1(cp.diff(u)), [u >= -0.5, u <= 1]),
    "fused_nonneg": lambda u: (0.3 * cp.norm1(u) + 0.6 * cp.norm1(cp.diff(u)), [u >= 0]),
}
stalling = {"sparse_groups", "nonneg_groups", "nonneg_sparse_groups"}
cases = {case.name: case for case in regularisers}
sums = [case for case in regularisers if isinstance(case.g, Then)]


def solve(formula, x, s):
    u = cp.Variable(x.shape)
    cost, constraints = formula(u)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(u - x) / 2 + s * cost), constraints)
    for tol in (1e-13, 1e-12):
        with warnings.catch_warnings():
            # Asked for more digits than it can give, the solver warns and may stop far off.
            warnings.simplefilter("ignore")
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        if problem.status == cp.OPTIMAL:
            break
    return np.asarray(u.value)


def some_points(case):
    rng = np.random.default_rng(7)
    return [scale * rng.normal(size=case.size) for scale in (0.3, 1.0, 3.0, 10.0)]


@pytest.mark.parametrize("name", formulas)
def test_prox_is_what_a_conic_solver_finds(name):
    case, tolerance = cases[name], 1e-6 if name in stalling else 1e-9
    for x, s in zip(some_points(case), (1.0, 0.3, 2.0, 4.0), strict=True):
        found = np.ravel(solve(formulas[name], x.reshape(case.like.shape), s))
        assert np.max(np.abs(found - case.prox(x, s))) <= tolerance * (1 + np.max(np.abs(x)))


@jax.jit
def dykstra(g, x, step):
    """The prox of first + second, from the two proxes alone, whether or not they compose."""

    def alternate(_, carry):
        u, p, q = carry
        y = g.first.prox(u + p, step)
        z = g.second.prox(y + q, step)
        return z, u + p - y, y + q - z

    return jax.lax.fori_loop(0, 1000, alternate, (x, 0.0 * x, 0.0 * x))[0]


@pytest.mark.parametrize("case", sums, ids=lambda case: case.name)
def test_one_prox_after_the_other_is_where_dykstras_alternation_ends(case):
    for x, s in zip(some_points(case), (1.0, 0.3, 2.0, 4.0), strict=True):
        gap = dykstra(case.g, x, s) - case.prox(x, s)
        assert np.max(np.abs(gap)) <= 1e-9 * (1 + np.max(np.abs(x)))
