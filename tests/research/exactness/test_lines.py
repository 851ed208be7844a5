"""Every inequality of docs/theory.md with full gradients, for every convex penalty."""

import itertools
import json
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.losses import Squared
from tests.cases_prox import EPS
from tests.research.exactness import grid
from tests.research.exactness.grid import CONVEX, LINES, STEPS, at_the_limit, strongly
from tests.research.exactness.lines import (
    SLACK,
    STRONGLY,
    Seen,
    first_gap,
    setting_of,
    start_of,
    tightest,
)
from tests.research.exactness.loop import Sites, prox, run


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
    steps = [STEPS[i % len(STEPS)] for i in range(len(CONVEX))]
    return [strongly(case, *steps[i], seed=i, rounds=10) for i, case in enumerate(CONVEX)]


@pytest.mark.parametrize("name", STRONGLY)
def test_the_inequality_of_strongly_convex_problems_holds(name):
    ratios = [tightest(STRONGLY[name](*one)) for one in convex_sample()]
    assert 0.3 < max(ratios) <= 1 + SLACK


def test_the_printed_constants_of_a_serve_all_steps_up_to_half_of_1_over_l():
    for s in sample():
        if s.q <= 0.5 and s.eta_g >= 1:
            rounds, gap = np.arange(1, len(s.G) + 1), first_gap(s)
            right = setting_of(s).residual(start_of(s, gap), rounds)
            printed = 2 * gap / s.step + 0.51 * (s.theta * s.Z) ** 2
            without = 3.6 * gap / s.step + 1.01 * (s.theta * s.zeta) ** 2
            assert np.all(right <= printed / rounds * (1 + SLACK))
            left = np.cumsum(s.G**2) / rounds
            assert tightest(iter([(left, without / rounds, s.slope**2)])) <= 1 + SLACK


def test_the_printed_constants_of_b_serve_all_steps_up_to_two_fifths_of_1_over_l():
    for s, gap in convex_sample():
        if s.q <= 0.4 and s.eta_g >= 1:
            rounds = np.arange(len(gap))
            right = setting_of(s).objective(start_of(s, float(gap[0])), s.sites.mu, rounds)
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
