"""The paper's constants, conditions and bounds."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.losses import Squared
from proxfl.prox import L1, NonNegative
from proxfl.research import theory
from tests import cases


@pytest.fixture(scope="module")
def setting():
    sites = cases.sites(8, labels=False)
    problem = px.Problem(g=L1(0.05), x0=jnp.zeros(cases.D), loss=Squared())
    shards = px.shards_of(sites)
    solved = px.simulate(px.ProximalGradient(0.05), problem, shards, rounds=20_000, every=20_000)
    optimum = float(solved.history["objective"][-1])
    x = jnp.asarray(solved.model)
    path = [t * x for t in (0.0, 0.5, 1.0, 1.5)]
    return sites, problem, shards, optimum, x, theory.estimate(problem, shards, path, optimum)


def test_smoothness_is_the_largest_eigenvalue_of_any_client(setting):
    sites, *_, constants = setting
    exact = max(np.linalg.eigvalsh(a.T @ a / len(a))[-1] for a, _ in sites)
    assert constants.smoothness == pytest.approx(exact, rel=1e-3)


def test_strong_convexity_is_the_smallest_eigenvalue_of_the_mean(setting):
    sites, *_, constants = setting
    mean = sum(a.T @ a / len(a) for a, _ in sites) / len(sites)
    assert constants.strong_convexity == pytest.approx(np.linalg.eigvalsh(mean)[0], rel=1e-6)


def test_variance_is_that_of_single_samples(setting):
    sites, problem, shards, *_ = setting
    x = np.linspace(-1, 1, cases.D)
    expected = []
    for a, y in sites:
        each = (a @ x - y)[:, None] * a
        expected.append(((each - each.mean(0)) ** 2).sum(axis=1).mean())
    found = theory.sample_variance(problem, shards, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_proximal_pl_constant_is_at_least_that_of_strong_convexity(setting):
    """Strong convexity implies the inequality with the same constant."""
    *_, constants = setting
    assert constants.proximal_pl >= constants.strong_convexity * (1 - 1e-6)


def test_the_subgradient_bound_of_the_l1_norm_is_weight_times_root_d(setting):
    *_, constants = setting
    assert constants.subgradient == pytest.approx(0.05 * math.sqrt(cases.D))


def test_proposed_steps_meet_their_conditions_and_longer_ones_do_not(setting):
    *_, constants = setting
    steps = theory.propose(constants, 5, constants.smoothness)
    holds = lambda a, t: all(c.holds for c in theory.conditions(constants, a) if c.theorem == t)
    assert holds(steps.theorem_35, "3.5") and holds(steps.theorem_35, "3.6")
    assert steps.theorem_37 is not None and holds(steps.theorem_37, "3.7")
    longer = px.Decoupled(2 * steps.theorem_35.eta, steps.theorem_35.eta_g, 5)
    assert not holds(longer, "3.5")
    small_server = px.Decoupled(steps.theorem_35.eta, 1.0, 5)
    assert not holds(small_server, "3.5")


def test_indicators_are_outside_the_theorems(setting):
    _, _, shards, _, x, _ = setting
    problem = px.Problem(g=NonNegative(), x0=jnp.zeros(cases.D), loss=Squared())
    constants = theory.estimate(problem, shards, [jnp.abs(x)])
    found = [c for c in theory.conditions(constants, px.Decoupled(1e-6, 2.0, 2)) if not c.holds]
    assert any("bounded" in c.sentence for c in found)


def test_the_noise_constant_is_six_only_when_the_server_step_is_root_n(setting):
    *_, constants = setting
    n, L = constants.clients, constants.smoothness
    rooted = px.Decoupled(1 / (10 * L * math.sqrt(n) * 5), math.sqrt(n), 5)
    least = theory.propose(constants, 5, L).theorem_35
    assert theory.noise_coefficient(constants, rooted) <= theory.PRINTED_NOISE
    assert theory.noise_coefficient(constants, least) > theory.PRINTED_NOISE


def test_omega_descends_as_the_lemma_says_and_stays_below_the_bound(setting):
    _, problem, shards, optimum, _, constants = setting
    algorithm = theory.propose(constants, 5, constants.smoothness).theorem_35
    observe = {
        "omega": measure.Omega(optimum),
        "residual": measure.ProxGradient(float(algorithm.eta_round)),
    }
    result = px.simulate(algorithm, problem, shards, rounds=300, every=1, observe=observe)
    omega, residual = result.history["omega"], result.history["residual"]
    allowed = theory.descent_allowance(constants, algorithm, None, 6.0, residual[:-1] ** 2)
    assert (np.diff(omega) <= allowed + 1e-12).all()
    bound = theory.bound_36(constants, algorithm, None, omega[0], result.history["round"])
    assert (omega <= bound * (1 + 1e-12)).all()
