"""The paper's constants, conditions and bounds."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms.exactness import longest_step
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


def standing(constants, steps, theorem, noisy=False) -> set[bool | None]:
    return {c.holds for c in theory.conditions(constants, steps, noisy) if c.theorem == theorem}


@pytest.mark.parametrize("noisy", [False, True])
def test_proposed_steps_meet_their_conditions_and_longer_ones_do_not(setting, noisy):
    *_, constants = setting
    proposals = {p.name: p for p in theory.propose(constants, 5, 2.0, noisy)[:-1]}
    short = {name: name.split("Theorem ")[1].replace(" with proximal", "") for name in proposals}
    ours = {"C1", "C1 PL", "C2"} if noisy else {"A", "B"}
    assert set(short.values()) == {"3.5", "3.6", "3.7"} | ours
    for name, (_, steps, held) in proposals.items():
        assert held == "covered" and standing(constants, steps, short[name], noisy) == {True}
        longer = px.Decoupled(1.01 * steps.eta, steps.eta_g, 5)
        if short[name] not in ("B", "C1 PL"):
            assert False in standing(constants, longer, short[name], noisy)
    least = theory.steps_35(constants, 5)
    assert False in standing(constants, px.Decoupled(least.eta, 1.0, 5), "3.5")
    assert standing(constants, px.Decoupled(least.eta, 1.0, 5), "A") == {True}


@pytest.mark.parametrize("tau, most", [(1, 1.0), (5, 0.99)])
def test_a_linear_rate_is_denied_only_where_there_is_none(setting, tau, most):
    """Steps too long for (**) with mu are covered with a smaller constant, up to what A covers."""
    *_, constants = setting
    L, L_f = constants.smoothness.value, constants.mean_smoothness.value
    longest = longest_step(L, L_f, 1.0, tau)
    faster = longest_step(L, L_f, 1.0, tau, constants.proximal_pl.value)
    step = most * longest if tau == 1 else faster + most * (longest - faster)
    assert standing(constants, px.Decoupled(step / tau, 1.0, tau), "B") == {True}
    beyond = px.Decoupled(1.01 * longest / tau, 1.0, tau)
    assert False in standing(constants, beyond, "B") and False in standing(constants, beyond, "A")


def test_a_constant_that_is_not_known_denies_nothing(setting):
    """Of too many parameters no Hessian is formed; a singular mean Hessian is one not convex."""
    _, _, shards, _, _, constants = setting
    unknown = theory.Constant(0.0, False)
    blind = constants._replace(proximal_pl=unknown, strong_convexity=unknown)
    for theorem in ("3.6", "3.7", "B"):
        found = standing(blind, theory.steps_37(constants, 5), theorem)
        assert None in found and (theorem == "3.7" or False not in found)
    assert not [p for p in theory.propose(blind, 5, 2.0) if "3.7" in p.name or p.name[-1] == "B"]
    rows, y = shards.examples
    flat = shards._replace(examples=(rows.at[..., 0].set(rows[..., 1]), y))
    problem = px.Problem(g=L1(0.05), x0=jnp.zeros(cases.D), loss=Squared())
    assert theory.estimate(problem, flat, [problem.x0]).strong_convexity == (0.0, True)


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
