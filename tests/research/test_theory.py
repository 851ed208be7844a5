"""The paper's constants, conditions and bounds."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.losses import Logistic, Squared
from proxfl.prox import L1, MCP, NonNegative
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
    assert constants.smoothness == (pytest.approx(exact), True)


def test_strong_convexity_is_the_smallest_eigenvalue_of_the_mean(setting):
    sites, *_, constants = setting
    mean = sum(a.T @ a / len(a) for a, _ in sites) / len(sites)
    assert constants.strong_convexity == (pytest.approx(np.linalg.eigvalsh(mean)[0]), True)


def test_variance_is_that_of_single_samples(setting):
    sites, problem, shards, *_ = setting
    x = np.linspace(-1, 1, cases.D)
    expected = []
    for a, y in sites:
        each = (a @ x - y)[:, None] * a
        expected.append(((each - each.mean(0)) ** 2).sum(axis=1).mean())
    found = theory.sample_variance(problem, shards, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_strong_convexity_stands_for_the_proximal_pl_constant(setting):
    """It implies the inequality with the same constant; what a path shows is no smaller."""
    _, problem, shards, optimum, x, constants = setting
    assert constants.proximal_pl == constants.strong_convexity
    seen = theory.constants.proximal_pl(problem, shards, 0.5 * x, optimum)
    assert seen >= constants.strong_convexity.value * (1 - 1e-6)


def test_what_only_a_path_shows_is_an_estimate(setting):
    """The logistic loss is bounded in its curvature, but nowhere strongly convex for sure."""
    _, _, shards, *_ = setting
    signs = shards._replace(examples=(shards.examples[0], jnp.sign(shards.examples[1])))
    problem = px.Problem(g=L1(0.05), x0=jnp.zeros(cases.D), loss=Logistic())
    found = theory.estimate(problem, signs, [problem.x0], optimum=0.0)
    assert found.smoothness.proven and found.mean_smoothness.proven
    assert found.strong_convexity.value > 0 and not found.strong_convexity.proven
    assert not found.variance.proven and not found.proximal_pl.proven
    covered = [p.name for p in theory.propose(found, 5, 1.0) if p.standing == "covered"]
    assert covered == ["the paper's Theorem 3.5", "ours, Theorem A"]
    strong = [c for c in theory.conditions(found, theory.steps_37(found, 5)) if c.theorem == "3.7"]
    assert None in [c.holds for c in strong] and False not in [c.holds for c in strong]


def test_the_subgradient_bound_of_the_l1_norm_is_weight_times_root_d(setting):
    *_, constants = setting
    assert constants.subgradient == (pytest.approx(0.05 * math.sqrt(cases.D)), True)


def test_proposed_steps_meet_their_conditions_and_longer_ones_do_not(setting):
    *_, constants = setting
    holds = lambda a, t: all(c.holds for c in theory.conditions(constants, a) if c.theorem == t)
    for name, steps, standing in theory.propose(constants, 5, 2.0)[:-1]:
        theorem = name.split()[-1]
        assert standing == "covered" and holds(steps, theorem)
        longer = px.Decoupled(1.01 * steps.eta, steps.eta_g, 5)
        assert not holds(longer, theorem)
    short = theory.steps_35(constants, 5)
    assert not holds(px.Decoupled(short.eta, 1.0, 5), "3.5")
    assert holds(px.Decoupled(short.eta, 1.0, 5), "A")


def test_indicators_are_outside_the_theorems(setting):
    _, _, shards, _, x, _ = setting
    problem = px.Problem(g=NonNegative(), x0=jnp.zeros(cases.D), loss=Squared())
    constants = theory.estimate(problem, shards, [jnp.abs(x)])
    found = [c for c in theory.conditions(constants, px.Decoupled(1e-6, 2.0, 2)) if not c.holds]
    assert any("bounded" in c.sentence for c in found)
    assert {c.theorem for c in found} == {"3.5", "3.6", "3.7"}  # and not ours


def test_penalties_that_are_not_convex_are_outside_all_theorems(setting):
    _, _, shards, *_ = setting
    problem = px.Problem(g=MCP(0.1, 2.0), x0=jnp.zeros(cases.D), loss=Squared())
    constants = theory.estimate(problem, shards, [problem.x0])
    assert [p.standing for p in theory.propose(constants, 5, 1.0)] == ["no theorem"]


def test_the_noise_constant_is_six_only_when_the_server_step_is_root_n(setting):
    *_, constants = setting
    n, L = constants.clients, constants.smoothness.value
    rooted = px.Decoupled(1 / (10 * L * math.sqrt(n) * 5), math.sqrt(n), 5)
    least = theory.steps_35(constants, 5)
    assert theory.noise_coefficient(constants, rooted) <= theory.PRINTED_NOISE
    assert theory.noise_coefficient(constants, least) > theory.PRINTED_NOISE


def test_omega_descends_as_the_lemma_says_and_stays_below_the_bound(setting):
    _, problem, shards, optimum, _, constants = setting
    algorithm = theory.steps_35(constants, 5)
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
