"""The theorems against runs that meet their conditions: is what is bounded below its bound?

Runs of l1-regularised problems whose steps meet a theorem's conditions with equality: logistic
regression with minibatches (Theorem 3.5), l1 least squares (Theorem 3.6, which covers it through
the proximal PL inequality), and the same as a strongly convex problem (Theorem 3.7). Expectations
are means over seeds. Noise constants come as printed and as the algebra gives them.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxfl.algorithms import Decoupled, ProximalGradient
from proxfl.data import Design, lasso, logistic
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import DistanceTo, LambdaTerm, ObjectiveValue, Omega, ProxGradient
from proxfl.engine.simulate import simulate
from proxfl.engine.smoothness import smoothness
from proxfl.losses import Logistic, Squared
from proxfl.points import norm
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1
from proxfl.research import theory
from proxfl.research.reproduce.claims import Claim, verdict

TAU = 5


class Case(NamedTuple):
    theorem: str
    problem: Problem
    shards: Shard
    algorithm: Decoupled
    constants: theory.Constants
    optimum: float
    solution: np.ndarray
    rounds: int


def cases(quick: bool) -> list[Case]:
    design = Design(clients=20, rows=80, features=10, feature_shift=0.5, coef_shift=0.5)
    labelled, measured = logistic(design, nonzeros=3, seed=0), lasso(design, nonzeros=3, seed=0)
    rounds = 300 if quick else 1000
    made = []
    with precision(np.float64):
        for theorem, sites, loss, batch in (
            ("3.5", labelled.sites, Logistic(), 8),
            ("3.6", measured.sites, Squared(), 8),
            ("3.6, full gradients", measured.sites, Squared(), None),
            ("3.7", measured.sites, Squared(), 8),
        ):
            problem = Problem(g=L1(0.02), x0=jnp.zeros(10), loss=loss, batch=batch)
            made.append(case(theorem, problem, shards_of(sites), rounds))
    return made


def case(theorem: str, problem: Problem, shards: Shard, rounds: int) -> Case:
    L = float(smoothness(problem, shards, problem.x0, jax.random.key(0)))
    solved = simulate(
        ProximalGradient(1 / L),
        problem,
        shards,
        rounds=20_000,
        every=20_000,
        observe={"objective": ObjectiveValue()},
    )
    optimum, x = float(solved.history["objective"][-1]), jnp.asarray(solved.model)
    path = [t * x for t in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)]
    constants = theory.estimate(problem, shards, path, optimum)
    steps = theory.propose(constants, TAU, L)
    algorithm = steps.theorem_37 if theorem == "3.7" else steps.theorem_35
    assert algorithm is not None
    return Case(theorem, problem, shards, algorithm, constants, optimum, np.asarray(x), rounds)


def compute(quick: bool, report, folder: Path) -> Frame:
    """Per theorem, seed and round: Omega, |G|^2, the distance to x*, and each bound."""
    frames, seeds = [], (3 if quick else 10)
    found = cases(quick)
    for done, c in enumerate(found):
        step = float(c.algorithm.eta_round)
        for seed in range(seeds if c.problem.batch else 1):
            with precision(np.float64):
                result = simulate(
                    c.algorithm,
                    c.problem,
                    c.shards,
                    rounds=c.rounds,
                    every=1,
                    seed=seed,
                    progress=False,
                    observe={
                        "omega": Omega(c.optimum),
                        "lambda": LambdaTerm(),
                        "residual": ProxGradient(step),
                        "distance": DistanceTo(jnp.asarray(c.solution)),
                    },
                )
            frame = pd.DataFrame(result.history).drop(columns=["seconds", "bytes_up", "bytes_down"])
            frames.append(with_bounds(frame, c).assign(theorem=c.theorem, seed=seed))
        report(done + 1, len(found))
    return pd.concat(frames, ignore_index=True)


def with_bounds(frame: Frame, c: Case) -> Frame:
    """Adds what the theorem bounds and its bound, with both noise constants."""
    k, a, batch = c.constants, c.algorithm, c.problem.batch
    rounds = frame["round"].to_numpy()
    redone = theory.noise_coefficient(k, a)
    g2 = frame["residual"].to_numpy() ** 2
    allowed = theory.descent_allowance(k, a, batch, redone, g2)
    printed = theory.descent_allowance(k, a, batch, theory.PRINTED_NOISE, g2)
    omega = frame["omega"].to_numpy()
    growth = np.append(np.diff(omega), np.nan)
    first = omega[0]
    if c.theorem == "3.5":
        mean = np.cumsum(g2) / np.arange(1, len(g2) + 1)
        after = np.arange(1, len(g2) + 1)
        value, bounds = (
            mean,
            [
                theory.bound_35(k, a, batch, first, after, noise)
                for noise in (theory.PRINTED_NOISE, redone)
            ],
        )
    elif c.theorem == "3.7":
        length = float(norm(jnp.asarray(c.solution)))
        # Omega_sc measures the drift without the division by eta_round.
        value = (frame["distance"] * length) ** 2 + frame["lambda"] * float(a.eta_round)
        bounds = [theory.bound_37(k, a, batch, value.iloc[0], rounds)] * 2
    else:
        value, bounds = (
            omega,
            [
                theory.bound_36(k, a, batch, first, rounds, noise)
                for noise in (theory.PRINTED_NOISE, redone)
            ],
        )
    return frame.assign(
        value=value,
        printed_bound=bounds[0],
        redone_bound=bounds[1],
        growth=growth,
        allowed=allowed,
        printed_allowed=printed,
        redone_noise=redone,
    )


def draw(frame: Frame) -> dict[str, Figure]:
    names = list(frame.theorem.unique())
    figure, axes = plots.panels(len(names), width=3.6)
    for ax, theorem in zip(axes, names, strict=True):
        part = frame[frame.theorem == theorem].groupby("round").mean(numeric_only=True)
        what = {"3.5": r"mean of $\|\mathcal{G}\|^2$", "3.7": r"$\Omega_{sc}$"}.get(
            theorem, r"$\Omega$"
        )
        ax.plot(part.index, part["value"], color=plots.COLOURS[0], label="measured (mean)")
        ax.plot(part.index, part["printed_bound"], "--", color=plots.COLOURS[1], label="as printed")
        if not np.allclose(part["printed_bound"], part["redone_bound"]):
            ax.plot(
                part.index, part["redone_bound"], ":", color=plots.COLOURS[2], label="noise redone"
            )
        ax.margins(y=0.25)  # room for the legend between the curves
        plots.label(ax, f"Theorem {theorem}", "communication round", what)
    return {"theory": figure}


def claims(frame: Frame) -> list[Claim]:
    found = []
    for theorem, part in frame.groupby("theorem", sort=False):
        mean = part.groupby("round").mean(numeric_only=True)
        ratio = mean["value"] / mean["printed_bound"]
        found.append(
            Claim(
                f"the bound of Theorem {theorem}",
                f"Theorem {theorem.split(',')[0]}",
                "The measured quantity stays below its bound under the stated conditions.",
                f"largest ratio of mean over seeds to printed bound: {ratio.max():.2g}, in the "
                f"last round {ratio.iloc[-1]:.2g} ({part.seed.nunique()} seeds)",
                verdict(bool((ratio <= 1 + 1e-9).all())),
            )
        )
    found += [descent(frame), noise(frame)]
    return found


def descent(frame: Frame) -> Claim:
    part = frame[frame.theorem.str.startswith("3.5") | frame.theorem.str.startswith("3.6")]
    mean = part.groupby(["theorem", "round"]).mean(numeric_only=True).dropna(subset=["growth"])
    slack = 1e-12
    printed = (mean["growth"] <= mean["printed_allowed"] + slack).mean()
    redone = (mean["growth"] <= mean["allowed"] + slack).mean()
    return Claim(
        "Omega descends",
        "Inequality before Theorem 3.5 in Appendix A.5",
        "Every round, the mean of Omega grows by no more than the residual terms less "
        "0.3 eta_round |G|^2.",
        f"holds in {printed:.1%} of the rounds as printed and in {redone:.1%} with the noise "
        "constant redone (means over seeds)",
        verdict(printed == 1.0, redone == 1.0),
    )


def noise(frame: Frame) -> Claim:
    part = frame[frame.theorem == "3.5"]
    value = float(part["redone_noise"].iloc[0])
    return Claim(
        "the noise constant",
        "Inequality (Omega descent) in Appendix A.5; Theorems 3.5 and 3.6",
        "Under the step-size condition the noise enters with the constant 6.",
        f"the same algebra gives {value:.1f} at these steps (4 n / eta_g^2 of it from the drift "
        f"recursion), so 3.5 should print {value / 0.3:.0f} for 20; 6 is right from "
        "eta_g = sqrt(n) on",
        verdict(value <= theory.PRINTED_NOISE),
    )
