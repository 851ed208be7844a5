"""Figure 1: sparse logistic regression with full gradients, tau = 1 and tau = 10.

The paper gives n = 30, d = 20, m_i = 100, theta = 0.003, (alpha, beta) = (50, 50) and the steps,
but not how features were scaled, which label rule was used, for how many rounds, or which seeds.
Two forms stand in for it.

The form "paper" has its own numbers. Rows have length one and are then scaled so that the mean
loss has smoothness L; L is the smallest of a fixed grid at which more than half of 20 draws have a
solution other than zero (|grad f(0)|_inf > theta). Draws whose solution is zero are left out and
counted.

The form "calibrated" has the same data in units that scaling cannot change: theta is half the
smallest weight that makes the solution zero, and eta_round is 0.2 / L at tau = 1, so 2 / L at
tau = 10 with the same eta, as in the paper; all 20 draws.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxfl.algorithms import Decoupled, FastFedDA, FedDA, FedMid, ProximalGradient
from proxfl.core import Algorithm
from proxfl.data import Scaling, synthetic
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.simulate import simulate
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1
from proxfl.research import theory
from proxfl.research.reproduce.claims import Claim, verdict
from proxfl.research.runs import curves, final, main_variants, rounds_to, spread, trace, where

THETA = 0.003
GRID = (0.002, 0.003, 0.005, 0.01, 0.02, 0.05)
ROUNDS = {1: 6000, 10: 1000}
DRAWS = 20
METHODS = ("Algorithm 1", "FedDA", "FedMid", "Fast-FedDA")
MUS = (1e-2, 1e-3, 1e-4)  # Fast-FedDA's mu as a multiple of L: the best of these is drawn


class Draw(NamedTuple):
    """One federation, its problem, and the unit its steps are measured in."""

    panel: str
    seed: int
    shards: Shard
    smoothness: float
    theta: float
    eta: float

    @property
    def problem(self) -> Problem:
        return Problem(g=L1(self.theta), x0=np.zeros(20), loss=Logistic())


def draws(seeds: int) -> Iterator[Draw]:
    """All draws of both forms that have a solution to look for."""
    scale = window()
    for seed in range(seeds):
        made = synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=scale), seed=seed)
        slope = made.recipe["facts"]["gradient_at_zero"]
        with precision(np.float64):
            shards = shards_of(made.sites)
        if slope > THETA:
            yield Draw("paper", seed, shards, scale, THETA, 4.0)
        yield Draw("calibrated", seed, shards, scale, slope / 2, 0.2 / (15 * scale))


def window() -> float:
    """The smallest smoothness on the grid that leaves more than half of the draws a solution."""
    # Unit rows times a factor: |grad f(0)| grows like the square root of the smoothness.
    unit = [
        synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=1.0), seed=seed).recipe["facts"]
        for seed in range(DRAWS)
    ]
    slopes = np.array([facts["gradient_at_zero"] for facts in unit])
    return next(L for L in GRID if np.mean(slopes * np.sqrt(L) > THETA) > 0.5)


def methods(eta: float, tau: int, L: float) -> Iterator[tuple[str, str, Algorithm]]:
    """(method, variant, algorithm), with the paper's ratios between the methods' steps."""
    yield "Algorithm 1", "", Decoupled(eta, 15.0, tau)
    yield "FedDA", "", FedDA(eta, 15.0, tau)
    yield "FedMid", "", FedMid(eta / 4, 5.0, tau)
    yield "FedMid", "no server prox", FedMid(eta / 4, 5.0, tau, "none")
    for mu in MUS:
        yield "Fast-FedDA", f"mu = {mu:g} L", FastFedDA(mu * L, 2 * L, tau)
    if tau > 1:
        yield "Algorithm 1", "same eta_round", Decoupled(eta / tau, 15.0, tau)


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """Per draw, one row per tau, method and observed round."""
    found = list(draws(3 if quick else DRAWS))
    return len(found), map(runs, found)


def runs(draw: Draw) -> Frame:
    rows, L = [], draw.smoothness
    for tau in ROUNDS:
        for method, variant, algorithm in methods(draw.eta, tau, L):
            rounds = ROUNDS[1 if variant == "same eta_round" else tau]
            labels = {"panel": draw.panel, "tau": tau, "seed": draw.seed}
            labels |= {"method": method, "variant": variant}
            rows.append(trace(labels, algorithm, draw.problem, draw.shards, rounds, 1 / L))
    rows[-1] = rows[-1].assign(curvature=curvature_at_end(draw))
    return pd.concat(rows).assign(theta=draw.theta)


def curvature_at_end(draw: Draw) -> float:
    """The largest curvature among the non-zeros of the solution, times eta_round at tau = 10.

    Once the zeros have settled this is what a step acts on, and it settles below 2.
    """
    with precision(np.float64):
        plain = ProximalGradient(1 / draw.smoothness)
        x = simulate(plain, draw.problem, draw.shards, rounds=20_000, every=20_000).model
        hessian = np.asarray(theory.mean_hessian(draw.problem, draw.shards, jnp.asarray(x)))
    inside = hessian[np.ix_(x != 0, x != 0)]
    return float(np.linalg.eigvalsh(inside)[-1]) * draw.eta * 15 * 10 if inside.size else 0.0


def draw(frame: Frame) -> dict[str, Figure]:
    figures = {}
    shown = main_variants(frame, ["panel", "tau"], final)
    for panel in ("paper", "calibrated"):
        figures[f"fig1-{panel}"], axes = plots.panels(2)
        for ax, tau in zip(axes, ROUNDS, strict=True):
            part = where(shown, panel=panel, tau=tau)
            title = f"Full gradients, $\\tau$ = {tau} ({part.seed.nunique()} draws)"
            curves(ax, part, "method", METHODS, title, legend=tau == 1)
    return figures


def claims(frame: Frame) -> list[Claim]:
    shown = main_variants(frame, ["panel", "tau"], final)

    def part(panel, tau, method):
        return where(shown, panel=panel, tau=tau, method=method)

    def ends(tau, method, panel="calibrated"):
        return final(part(panel, tau, method))

    ours1, dual1 = part("calibrated", 1, "Algorithm 1"), part("calibrated", 1, "FedDA")
    ours10 = part("calibrated", 10, "Algorithm 1")
    literal10 = ends(10, "Algorithm 1", "paper")
    settled = literal10 < 1e-6
    worse = [
        ends(10, method).median() > ends(10, "FedDA").median()
        for method in ("Fast-FedDA", "FedMid")
    ]
    return [
        Claim(
            "tau = 1: both converge",
            "Section 4.1, first experiment",
            "With tau = 1 both FedDA and the proposed algorithm converge to machine precision.",
            f"final optimality, Algorithm 1 {spread(final(ours1))}, FedDA {spread(final(dual1))}; "
            f"slower draws are still on their way at the last round ({int(ours1['round'].max())})",
            by_share(final(ours1) < 1e-10, final(dual1) < 1e-10),
        ),
        same_rate(ours1, dual1),
        *fedmid(frame),
        Claim(
            "Fast-FedDA is slow at tau = 1",
            "Section 4.1, first experiment",
            "Fast-FedDA converges slowly due to its decaying steps.",
            f"final optimality {spread(ends(1, 'Fast-FedDA'))} (best mu of the grid) against "
            f"{spread(ends(1, 'Algorithm 1'))} for Algorithm 1",
            verdict(ends(1, "Fast-FedDA").median() > 10 * ends(1, "Algorithm 1").median()),
        ),
        Claim(
            "tau = 10: exact convergence",
            "Section 4.1, first experiment; Remark 3.8",
            "With tau = 10 the proposed algorithm still converges precisely, with no sign of the "
            "B_g residual of the theorems.",
            f"calibrated: final optimality {spread(final(ours10))}; paper's numbers: "
            f"{int(settled.sum())} of {len(settled)} draws below 1e-6, {spread(literal10)}. "
            + unstable(frame, settled),
            by_share(final(ours10) < 1e-9, settled),
        ),
        tau_saving(frame, ours1, ours10),
        Claim(
            "FedDA stalls at tau = 10",
            "Section 4.1, first experiment",
            "FedDA only converges to a neighbourhood because of client drift.",
            f"final optimality {spread(ends(10, 'FedDA'))} against {spread(final(ours10))}",
            verdict(ends(10, "FedDA").min() > 1e3 * final(ours10).median()),
        ),
        Claim(
            "the others are worse still",
            "Section 4.1, first experiment (printed 'FedDA and FedMid'; Fast-FedDA must be meant)",
            "Fast-FedDA and FedMid do even worse than FedDA at tau = 10.",
            f"final optimality: FedDA {spread(ends(10, 'FedDA'))}, Fast-FedDA "
            f"{spread(ends(10, 'Fast-FedDA'))}, FedMid {spread(ends(10, 'FedMid'))}",
            verdict(all(worse), any(worse)),
        ),
    ]


def by_share(*reached: Frame) -> str:
    """Holds if nine draws in ten got there, for every series given; in part if half did."""
    least = min(series.mean() for series in reached)
    return verdict(least >= 0.9, least >= 0.5)


def same_rate(ours: Frame, dual: Frame) -> Claim:
    """FedDA and Algorithm 1 at tau = 1: the same curve, or only the same slope in the end?"""
    a = ours.pivot_table(index="round", columns="seed", values="optimality")
    b = dual.pivot_table(index="round", columns="seed", values="optimality")
    same = ((a - b).abs() <= 1e-6 * a + 1e-12).all()
    ratio = rounds_to(dual, 1e-3) / rounds_to(ours, 1e-3)
    return Claim(
        "tau = 1: the same rate",
        "Section 4.1, first experiment",
        "With the same steps both algorithms converge at exactly the same rate.",
        f"the curves coincide in {int(same.sum())} of {len(same)} draws; they are different "
        "algorithms (dual averaging and proximal gradient), equal as long as no coordinate leaves "
        f"zero after round 1. Rounds to 1e-3, FedDA over Algorithm 1: {spread(ratio, '.2f')}",
        verdict(bool(same.all()), bool(same.any())),
    )


def fedmid(frame: Frame) -> list[Claim]:
    one = where(frame, panel="calibrated", tau=1)
    full, bare = (
        final(where(one, method="FedMid", variant=variant)) for variant in ("", "no server prox")
    )
    others = where(one, variant="").groupby("method")
    worst = all(full.median() >= final(rows).median() for _, rows in others)
    measured = (
        f"final optimality {spread(full)} as published, {spread(bare)} without the server's prox; "
        "the regulariser acts twice a round, and that accounts for most of the error"
    )
    return [
        Claim(
            "tau = 1: FedMid is worst",
            "Section 4.1, first experiment",
            "FedMid performs the worst.",
            measured,
            verdict(worst),
        ),
        Claim(
            "tau = 1: FedMid fails for primal averaging",
            "Section 4.1, first experiment; Introduction",
            "FedMid's failure at tau = 1 is the curse of primal averaging.",
            measured,
            verdict(bare.median() > 0.5 * full.median(), bare.median() > 1e-6),
        ),
    ]


def tau_saving(frame: Frame, ours1: Frame, ours10: Frame) -> Claim:
    same = where(frame, panel="calibrated", method="Algorithm 1", variant="same eta_round")
    level = 1e-2
    one, ten, equal = (rounds_to(rows, level) for rows in (ours1, ours10, same))
    return Claim(
        "tau = 10 needs fewer rounds",
        "Section 4.1, first experiment",
        "Local steps reduce the rounds, roughly by 1/tau (a factor tau must be meant).",
        f"rounds at tau = 1 over rounds at tau = 10 to {level:g}: {spread(one / ten, '.1f')} with "
        f"the same eta, hence a ten times longer eta_round; {spread(one / equal, '.2f')} with the "
        "same eta_round: the saving comes from the longer step, not from the local steps",
        verdict(False, (one / ten).median() > 5 and abs((one / equal).median() - 1) < 0.2),
    )


def unstable(frame: Frame, settled: Frame) -> str:
    """Why some draws at the paper's own steps settle and others do not."""
    local = spread(where(frame, panel="paper").groupby("seed")["curvature"].max(), ".2f")
    worst = window() * 4 * 15 * 10
    bad = ", ".join(str(seed) for seed in settled.index[~settled]) or "none"
    return (
        f"L * eta_round is {worst:.1f} at tau = 10, where only 2 is safe; among the non-zeros of "
        f"the solution it is {local}, so a run that finds the zeros settles. Seeds that never find "
        f"them, and cycle: {bad}"
    )
