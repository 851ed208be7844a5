"""Every rule can hold and can fail, and one machine makes all verdicts."""

import importlib

import numpy as np
import pandas as pd
import pytest

from proxfl.research.reproduce import claims
from proxfl.research.reproduce.claims import FAILS, HOLDS, IN_PART, UNTESTED, Claim, JudgedClaim
from proxfl.research.reproduce.fig1_runs import METHODS
from proxfl.research.reproduce.targets import COMPARISONS, TARGETS

MODULES = {name: importlib.import_module(path) for name, path in TARGETS.items()}
CLAIMS = {claim.name: claim for module in MODULES.values() for claim in module.CLAIMS}
DRAWS = 20

FEDMID = ("Algorithm 1's steps", "the paper's steps", "steps 10 times shorter")
STOCHASTIC = ("Algorithm 1", "FedDA", "Fast-FedDA", "Fast-FedDA, corrected")


def same(value, *names):
    return dict.fromkeys(names, value)


# For each claim, quantities of a draw of which its parts are all true, and of one where none is.
EXAMPLES = {
    "tau = 1: both converge to machine precision": (
        {"Algorithm 1": 1e-14, "FedDA": 1e-13},
        {"Algorithm 1": 1e-3, "FedDA": 1e-3},
    ),
    "tau = 1: exactly the same rate": ({"gap": 0.0, "ratio": 1.0}, {"gap": 0.1, "ratio": 2.0}),
    "tau = 1: FedMid performs the worst": (
        same(1e-9, *METHODS) | {"FedMid": 0.9, "FedMid, no server prox": 0.8},
        same(1e-3, *METHODS) | {"FedMid": 1e-4, "FedMid, no server prox": 1e-6},
    ),
    "FedMid: averaging destroys sparsity": (
        {"clients' own": 5, "their mean": 20, "Algorithm 1": 5},
        {"clients' own": 15, "their mean": 5, "Algorithm 1": 5},
    ),
    "FedMid: smaller steps are better": (
        dict(zip(FEDMID, (0.9, 0.5, 0.1), strict=True)),
        dict(zip(FEDMID, (0.1, 0.5, 0.9), strict=True)),
    ),
    "Fast-FedDA converges slowly": (
        {"Algorithm 1": 1e-15, "Fast-FedDA": 1e-3, "Fast-FedDA, corrected": 1e-3},
        {"Algorithm 1": 1e-15, "Fast-FedDA": 1e-14, "Fast-FedDA, corrected": 1e-14},
    ),
    "tau = 10: precise convergence": (
        {"saving": 10.0, "ours": 10.0, "best other": 50.0, "final": 1e-15},
        {"saving": 1.0, "ours": 50.0, "best other": 10.0, "final": 1e-3},
    ),
    "no residual in B_g": ({"Algorithm 1": 1e-15}, {"Algorithm 1": 1e-3}),
    "tau = 10: FedDA only gets near": (
        {"Algorithm 1": 1e-15, "FedDA": 1e-3, "halfway": 1e-3},
        {"Algorithm 1": 1e-15, "FedDA": 1e-15, "halfway": 1e-9},
    ),
    "tau = 10: the others are worse than FedDA": (
        same(1e-2, *METHODS) | {"FedDA": 1e-3},
        same(1e-4, *METHODS) | {"FedDA": 1e-3},
    ),
    "FedDA is the best of those compared": (
        {f"{m}, tau = {t}": 1e-5 if m == "FedDA" else 1e-2 for m in METHODS[1:] for t in (1, 10)},
        {f"{m}, tau = {t}": 1e-2 if m == "FedDA" else 1e-5 for m in METHODS[1:] for t in (1, 10)},
    ),
    "stochastic gradients: convergence to a neighbourhood": (
        same(1.0, "last over third quarter, b = 1", "last over third quarter, b = 20"),
        same(0.3, "last over third quarter, b = 1", "last over third quarter, b = 20"),
    ),
    "stochastic gradients: larger batches are more precise": (
        {"Algorithm 1, b = 1": 1e-2, "Algorithm 1, b = 20": 1e-3},
        {"Algorithm 1, b = 1": 1e-3, "Algorithm 1, b = 20": 1e-2},
    ),
    "stochastic gradients: the others are worse": tuple(
        {f"{m}, b = {b}": ours if m == "Algorithm 1" else 1e-2 for m in STOCHASTIC for b in (1, 20)}
        for ours in (1e-3, 1e-1)
    ),
    "MNIST: higher accuracy with fewer rounds": tuple(
        {
            f"{what}{m}, tau = {t}": value
            for t in (5, 10)
            for what, m, value in (
                ("", "Algorithm 1", ours),
                ("", "FedDA", 0.98),
                ("first round, ", "Algorithm 1", first),
                ("first round, ", "FedDA", 1000.0),
            )
        }
        | {"difference, tau = 5": 0.0, "difference, tau = 10": 0.0}
        for ours, first in ((0.99, 500.0), (0.97, np.inf))
    ),
    "the bound of Theorem 3.5": ({"largest": 0.5, "last": 0.1}, {"largest": 1.5, "last": 0.1}),
    "the bound of Theorem 3.6": ({"largest": 0.5, "last": 0.1}, {"largest": 1.5, "last": 0.1}),
    "the bound of Theorem 3.6, full gradients": (
        {"largest": 0.5, "last": 0.1},
        {"largest": 1.5, "last": 0.1},
    ),
    "the bound of Theorem 3.7": ({"largest": 0.5, "last": 0.1}, {"largest": 1.5, "last": 0.1}),
    "(t + 1) eta improves performance": (
        {"growing": 1e-15, "constant": 1e-3, "none": 1e-3},
        {"growing": 1e-3, "constant": 1e-3, "none": 1e-3},
    ),
    "one client: it stops at the solution": (
        {"growing": 1e-14, "constant": 1e-3, "none": 1e-3},
        {"growing": 1e-3, "constant": 1e-14, "none": 1e-14},
    ),
    "a residual error from non-smoothness": ({"growing": 1e-3}, {"growing": 1e-15}),
    "post-proximal messages lose the mean gradient": (
        {"coupled": 1.0, "decoupled": 1e-15},
        {"coupled": 1e-15, "decoupled": 1e-15},
    ),
    "client drift is eliminated": tuple(
        {f"with, heterogeneity {h}": ours for h in (0, 1, 3)}
        | {f"without, heterogeneity {h}": control for h in (0, 1, 3)}
        for ours, control in ((1e-15, 1e-2), (1e-2, 1e-15))
    ),
    "unaffected by B_g": (
        same(1e-15, "theta = 0.01", "theta = 0.1", "theta = 1"),
        same(1e-3, "theta = 0.01", "theta = 0.1", "theta = 1"),
    ),
    "corrections average to zero": ({"ratio": 1e-14}, {"ratio": 1e-2}),
    "one vector, where others need two": tuple(
        {
            f"{m} {way}": ours if m == "Decoupled" else theirs
            for m in ("Decoupled", "Scaffold", "Mime")
            for way in ("up", "down")
        }
        for ours, theirs in ((1, 2), (2, 1))
    ),
    "FedADMM performs like FedDR": (
        {"rounds to 1e-6, FedDR": 300.0, "rounds to 1e-6, FedADMM": 300.0},
        {"rounds to 1e-6, FedDR": 300.0, "rounds to 1e-6, FedADMM": 900.0},
    ),
    "local updates save rounds": (
        {"tau = 1": 60.0} | same(30.0, *(f"tau = {tau}" for tau in (2, 5, 10, 20))),
        {"tau = 1": 60.0} | same(60.0, *(f"tau = {tau}" for tau in (2, 5, 10, 20))),
    ),
    "a residual of the order of sigma^2 / (n tau b)": (
        same(-1.0, "slope in b", "slope in n", "slope in tau"),
        same(0.0, "slope in b", "slope in n", "slope in tau"),
    ),
    "larger batches reduce the residual": ({"slope in b": -1.0}, {"slope in b": 0.5}),
    "a residual error from noise, and none without": (
        {"stochastic": 1e-4, "full gradients": 1e-30},
        {"stochastic": 1e-30, "full gradients": 1e-4},
    ),
    "l1 logistic regression satisfies proximal PL": (
        {"near": 0.1, "far": 0.1},
        {"near": 0.1, "far": 1e-4},
    ),
    "indicators: no residual where grad f(x*) = 0": ({"distance": 1e-14}, {"distance": 1e-2}),
}


# What runs cannot decide: the claim stands in the table with its data and without a verdict on it.
UNDECIDED = ("FedDR and FedADMM need very many local updates",)


def judged(claim: Claim, row, draws=DRAWS) -> JudgedClaim:
    given = pd.DataFrame([row] * (1 if claim.certain else draws))
    return claims.judge(claim._replace(measure=lambda table: given), None)


def test_every_claim_has_examples_or_says_why_it_has_no_rule():
    assert set(EXAMPLES) | set(UNDECIDED) == set(CLAIMS)
    for name in UNDECIDED:
        assert CLAIMS[name].rule.startswith("none: ")
        assert judged(CLAIMS[name], {"FedDR": 1e-15}).verdict == UNTESTED


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_rule_can_hold_and_can_fail(name):
    good, bad = EXAMPLES[name]
    assert judged(CLAIMS[name], good).verdict == HOLDS
    assert judged(CLAIMS[name], bad).verdict == FAILS


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_says_what_where_and_by_which_rule(claim):
    assert claim.quote and claim.place and claim.quantity and claim.rule


@pytest.mark.parametrize("name", EXAMPLES)
def test_two_draws_decide_nothing(name):
    claim = CLAIMS[name]
    if not claim.certain:
        assert all(judged(claim, row, 2).verdict == IN_PART for row in EXAMPLES[name])


def test_a_part_holds_by_the_interval_and_not_by_the_majority():
    true = lambda count: np.arange(DRAWS) < count
    sides = [claims.verdict([claims.part("", true(count))]) for count in (20, 18, 14, 8, 0)]
    assert sides == [HOLDS, HOLDS, IN_PART, FAILS, FAILS]


def test_parts_that_disagree_hold_in_part():
    yes, no = claims.part("", np.ones(DRAWS)), claims.part("", np.zeros(DRAWS))
    assert claims.verdict([yes, no]) == IN_PART


def test_the_interval_of_the_median_covers_it_nineteen_times_in_twenty():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        text = claims.with_interval(pd.Series(rng.standard_normal(20) + 10))
        low, high = text.split("(")[1].rstrip(")").split(" to ")
        covered += float(low) <= 10 <= float(high)
    assert covered >= 0.95 * 400 - 2 * np.sqrt(400 * 0.05 * 0.95)


def test_a_claim_that_sums_up_others_is_untested_without_them():
    row = judged(CLAIMS["no residual in B_g"], {"Algorithm 1": 1e-15})
    sum_up = lambda **found: claims.together("", "", "", found).verdict
    assert sum_up(a=row, b=row) == HOLDS and sum_up(a=row, b=None) == UNTESTED
    assert sum_up(a=row, b=row._replace(verdict=FAILS)) == IN_PART
    assert set(COMPARISONS) <= set(CLAIMS)
