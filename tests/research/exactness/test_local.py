"""Theorem E: the linearised round, and what it says of the longest stable step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.losses import Squared
from proxfl.prox import L1, Nuclear
from proxfl.research import theory
from proxfl.research.reproduce import stability
from tests import cases
from tests.research.exactness.loop import draw

STEPS = [(0.3, 1.0, 1), (0.8, 2.0, 3), (0.5, 0.7, 6)]  # eta_round, eta_g, tau


@pytest.fixture(scope="module")
def lasso():
    problem = px.Problem(L1(0.3), jnp.zeros(cases.D), Squared())
    shards = px.shards_of(cases.sites(4, labels=False))
    return problem, shards, stability.solve(problem, shards)


@pytest.mark.parametrize("step, eta_g, tau", STEPS)
def test_on_a_polyhedral_penalty_it_is_the_closed_form(lasso, step, eta_g, tau):
    problem, shards, x = lasso
    local = theory.linearise(problem, shards, x)
    assert 0 < local.hessians.shape[1] == np.count_nonzero(x) < cases.D
    support, (n, k, _) = np.flatnonzero(np.asarray(x)), local.hessians.shape
    H = [a[:, support].T @ a[:, support] / len(a) for a, _ in cases.sites(4, labels=False)]
    closed = np.zeros(((n + 1) * k, (n + 1) * k))
    eye, eta = np.eye(k), step / (eta_g * tau)
    U = np.zeros((n, k, (n + 1) * k))
    for i in range(n):
        powers = [np.linalg.matrix_power(eye - eta * H[i], t) for t in range(tau)]
        K = sum(powers) / tau
        U[i, :, :k], U[i, :, (i + 1) * k : (i + 2) * k] = K @ H[i], K - eye
    V = U.mean(axis=0)
    closed[:k] = np.eye(k, (n + 1) * k) - step * V
    for i in range(n):
        closed[(i + 1) * k : (i + 2) * k] = V - U[i]
    radius = np.abs(np.linalg.eigvals(closed)).max()
    assert local.radius(step, eta_g, tau) == pytest.approx(radius, rel=1e-9)


@pytest.mark.parametrize("g", [L1(0.3), Nuclear(0.3)], ids=["l1", "nuclear"])
def test_it_is_the_derivative_of_the_round(g):
    """Runs near the solution shrink by the spectral radius, also where the prox is curved."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4, 1)) @ rng.normal(size=(1, 3))
    sites = [(a, a @ truth + 0.1 * rng.normal(size=(12, 3))) for a in rng.normal(size=(3, 12, 4))]
    problem, shards = px.Problem(g, jnp.zeros((4, 3)), Squared()), px.shards_of(sites)
    x = stability.solve(problem, shards)
    local, (step, eta_g, tau) = theory.linearise(problem, shards, x), (0.4, 1.0, 3)
    away = []
    for rounds in (10, 20):
        model = px.simulate(px.Decoupled(step / tau, eta_g, tau), problem, shards, rounds=rounds)
        away.append(np.linalg.norm(np.asarray(model.model) - np.asarray(x)))
    assert 1e-9 < away[1] < away[0]
    shrinks = (away[1] / away[0]) ** (1 / 10)
    assert shrinks == pytest.approx(local.radius(step, eta_g, tau), rel=0.05)


def test_with_a_server_step_of_one_convex_clients_are_stable_up_to_their_own_limit():
    """If eta h < 2 and eta_g (1 - (1 - eta h)^tau) < 2 for all curvatures h of clients."""
    for seed in range(10):
        sites = draw(seed, 3, ripple=0.0)
        local = theory.Local(
            sites.H, sites.w, lambda steps: np.repeat(np.eye(3)[None], len(steps), 0)
        )
        h = np.linalg.eigvalsh(sites.H)
        for tau in (2, 5, 12):
            eta = 1.99 / h.max()
            assert local.radius(eta * tau, 1.0, tau) < 1
            server = 1.99 / (1 - (1 - eta * h) ** tau).max()
            assert local.radius(server * eta * tau, server, tau) < 1


def test_eigenvalues_are_those_of_the_characteristic_equation():
    """det sum_i w_i (z - M_i)^-1 (z - N_i) = 0, or z is an eigenvalue of an M_i."""
    sites = draw(3, 2, clients=3, ripple=0.0)
    step, eta_g, tau = 0.9 / sites.L, 2.0, 4
    local = theory.Local(sites.H, sites.w, lambda steps: np.repeat(np.eye(2)[None], len(steps), 0))
    eta, eye = step / (eta_g * tau), np.eye(2)
    inner = np.array([np.linalg.matrix_power(eye - eta * H, tau) for H in sites.H])
    K = np.array(
        [sum(np.linalg.matrix_power(eye - eta * H, t) for t in range(tau)) for H in sites.H]
    )
    M, N = eye - K / tau, eye - eta_g * (eye - inner)
    for z in np.linalg.eigvals(local.matrix(step, eta_g, tau)):
        own = min(abs(np.linalg.eigvals(m) - z).min() for m in M)
        if own < 1e-7 or abs(z) < 1e-7:  # zero: the mean correction, which is gone after a round
            continue
        terms = [np.linalg.solve(z * eye - m, z * eye - n) for m, n in zip(M, N, strict=True)]
        mean = np.tensordot(sites.w, terms, axes=1)
        assert abs(np.linalg.det(mean)) < 1e-8 * max(np.abs(terms).max(), 1.0) ** 2


def test_the_prediction_is_what_runs_show(lasso, monkeypatch):
    problem, shards, x = lasso
    monkeypatch.setattr(stability, "ROUNDS", 1500)
    local = theory.linearise(problem, shards, x)
    predicted = local.longest_stable(4.0, 3)
    tried = predicted * jnp.array([0.9, 0.97, 1.03])
    came, _ = stability.returns(problem, shards, x, tried, 4.0, 3)
    assert np.asarray(came).tolist() == [True, True, False]
    jax.clear_caches()  # the patched number of rounds is in the compiled program


def test_a_solution_of_zero_is_stable_for_every_step(lasso):
    _, shards, _ = lasso
    problem = px.Problem(L1(100.0), jnp.zeros(cases.D), Squared())
    assert theory.linearise(problem, shards, problem.x0).longest_stable(1.0, 5) == np.inf
