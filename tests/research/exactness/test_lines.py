"""Every inequality of docs/theory.md with full gradients, for every convex penalty."""

import itertools
import json
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms.exactness import longest_step
from proxfl.losses import Squared
from proxfl.research import theory
from tests.cases_prox import EPS
from tests.research.exactness import grid
from tests.research.exactness.grid import CONVEX, LINES, STEPS, at_the_limit
from tests.research.exactness.lines import SLACK, Seen, tightest
from tests.research.exactness.loop import Sites, draw, prox, run, solve


@cache
def sample() -> list[Seen]:
    """Each penalty with two of the steps, each of the steps with a dozen penalties."""
    pairs = itertools.product(range(2), enumerate(CONVEX))
    which = [(case, (i + 3 * again) % len(STEPS), i) for again, (i, case) in pairs]
    return [Seen(at_the_limit(case, *STEPS[j], seed=i, rounds=8)) for case, j, i in which]


@pytest.mark.parametrize("name", LINES)
def test_the_inequality_holds(name):
    ratios = [tightest(LINES[name](seen)) for seen in sample()]
    assert max(ratios) <= 1 + SLACK
    assert max(ratios) > 0.1  # so that it is tried where it says something


def test_1_a_point_plus_any_multiple_of_its_subgradient_leads_back_to_it():
    for seen in sample():
        for a in (0.01, 1.0, 30.0):
            moved = prox(seen.run.case, seen.p + a * seen.xi, a)
            size = 1 + np.abs(seen.p).max() + a * np.abs(seen.xi).max()
            np.testing.assert_allclose(moved, seen.p, rtol=0, atol=1e4 * EPS * size)


def test_3_the_last_mean_gradient_cancels():
    for seen in sample():
        last = (seen.p[:-1] - seen.p[1:])[:, :, None] / seen.step
        own = seen.run.taken[:-1].mean(axis=1)
        found = seen.run.c[1:] + seen.xi[1:, :, None]
        scale = np.abs(seen.run.c).max() + np.abs(seen.xi).max() + np.abs(own).max()
        np.testing.assert_allclose(found, last - own, rtol=0, atol=1e3 * EPS * scale)


@cache
def convex_sample() -> list[tuple[Seen, np.ndarray]]:
    """Strongly convex problems, with the longest steps that Theorem B covers."""
    found = []
    for i, case in enumerate(CONVEX):
        (tau, eta_g), sites = STEPS[i % len(STEPS)], draw(i, case.size, ripple=0.0)
        step = longest_step(sites.L, sites.L_f, eta_g, tau, sites.mu)
        seen = Seen(run(sites, case, step, eta_g, tau, 10, seed=i))
        found.append((seen, seen.gap(solve(sites, case))))
    return found


def test_10_strong_convexity_gives_the_proximal_pl_inequality():
    for s, gap in convex_sample():
        line = s.sites.mu * s.step * gap[:-1], -s.least_Q, s.step * s.slope**2
        assert tightest(iter([line])) <= 1 + SLACK


def test_b_the_potential_shrinks_at_the_rate_of_proximal_gradient():
    ratios = []
    for s, gap in convex_sample():
        rho = 1 - s.sites.mu * s.step
        V = s.step * gap[:-1] + s.q**2 * s.delta**2 / (2 * (rho - s.beta))
        ratios.append(tightest(iter([(V[1:], rho * V[:-1], float(V[0]))])))
    assert 0.3 < max(ratios) <= 1 + SLACK


def start_of(s: Seen, gap: float) -> theory.Start:
    return theory.Start(gap, float(s.zeta) ** 2, float(s.omega) ** 2)


def setting_of(s: Seen) -> theory.Setting:
    return theory.Setting(s.L, s.L_f, s.step, s.eta_g, s.tau)


def test_a_bounds_the_mean_of_the_residual():
    """By the constants for these steps, and by those that serve all steps up to 1/(2L)."""
    for s in sample():
        rounds = np.arange(1, len(s.G) + 1)
        # No penalty of the list is negative anywhere.
        gap = s.sites.value(s.p[0, 0]) + s.run.value(s.p[0])[0] - s.sites.least
        left, scale = np.cumsum(s.G**2) / rounds, s.slope**2
        right = setting_of(s).residual(start_of(s, gap), rounds)
        assert tightest(iter([(left, right, scale)])) <= 1 + SLACK
        if s.q <= 0.5 and s.eta_g >= 1:
            printed = 2 * gap / s.step + 0.51 * (s.theta * s.Z) ** 2
            without = 3.6 * gap / s.step + 1.01 * (s.theta * s.zeta) ** 2
            assert np.all(right <= printed / rounds * (1 + SLACK))
            assert tightest(iter([(left, without / rounds, scale)])) <= 1 + SLACK


def test_b_bounds_the_objective():
    for s, gap in convex_sample():
        rounds = np.arange(len(gap))
        right = setting_of(s).objective(start_of(s, float(gap[0])), s.sites.mu, rounds)
        assert tightest(iter([(gap, right, float(gap[0]))])) <= 1 + SLACK
        if s.q <= 0.4 and s.eta_g >= 1:
            first = gap[0] + 0.45 * s.step * (s.theta * s.Z) ** 2
            assert np.all(right <= (1 - s.sites.mu * s.step) ** rounds * first * (1 + SLACK))


def test_the_loop_is_the_library_s():
    case, (tau, eta_g) = next(c for c in CONVEX if c.name == "l1"), (4, 2.0)
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(3, 20, case.size)), rng.normal(size=(3, 20))
    H = np.einsum("nij,nik->njk", A, A) / 20
    sites = Sites(H, np.einsum("nij,ni->nj", A, y) / 20, np.zeros(3), np.full(3, 1 / 3))
    mine = run(sites, case, 0.3, eta_g, tau, 5)
    problem = px.Problem(case.g, jnp.asarray(mine.x[0, 0]), Squared())
    shards = px.shards_of(list(zip(A, y, strict=True)))
    found = px.simulate(px.Decoupled(mine.eta, eta_g, tau), problem, shards, rounds=5)
    np.testing.assert_allclose(found.model, mine.p[-1, 0], rtol=0, atol=1e-13)


@pytest.mark.soak
def test_the_inequalities_hold_on_a_large_grid_whose_outcome_is_committed():
    """`python -m tests.research.exactness.grid` writes it."""
    found = grid.outcome()
    assert all(row["largest ratio"] <= 1 + SLACK for row in found.values())
    for name, committed in json.loads(grid.OUTCOME.read_text()).items():
        assert found[name] == pytest.approx(committed, abs=1e-3)
