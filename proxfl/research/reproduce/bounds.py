"""The theorems against runs that meet their conditions: is what is bounded below its bound?

Runs of l1-regularised problems whose steps meet a theorem's conditions with equality: logistic
regression with minibatches (Theorem 3.5), l1 least squares (Theorem 3.6, which covers it through
the proximal PL inequality), and the same as a strongly convex problem (Theorem 3.7). Expectations
are means over seeds. Noise constants come as printed and as the algebra gives them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
from proxfl.losses import Logistic, Loss, Squared
from proxfl.points import norm
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1
from proxfl.research import theory
from proxfl.research.reproduce.claims import Claim, Finding
from proxfl.research.runs import run, where
from proxfl.research.styles import BOUNDS, style

TAU = 5
FORMS = {"seeds": 10, "rounds": 1000}, {"seeds": 3, "rounds": 300}  # whole and quick
CAPTIONS = {
    "theory": "Means over seeds, and the bounds as printed and with the noise constant redone."
}
MEASURED = {"3.5": r"mean of $\|\mathcal{G}\|^2$", "3.7": r"$\Omega_{sc}$"}


class Case(NamedTuple):
    theorem: str
    problem: Problem
    shards: Shard
    algorithm: Decoupled
    constants: theory.Constants
    optimum: float
    solution: np.ndarray
    rounds: int


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    return {**FORMS[quick], "tau": TAU}


def cases(rounds: int) -> list[Case]:
    design = Design(clients=20, rows=80, features=10, feature_shift=0.5, coef_shift=0.5)
    labelled, measured = (make(design, nonzeros=3, seed=0).sites for make in (logistic, lasso))
    with precision(np.float64):
        return [
            case("3.5", Logistic(), labelled, 8, rounds),
            case("3.6", Squared(), measured, 8, rounds),
            case("3.6, full gradients", Squared(), measured, None, rounds),
            case("3.7", Squared(), measured, 8, rounds),
        ]


def case(theorem: str, loss: Loss, sites, batch: int | None, rounds: int) -> Case:
    problem, shards = Problem(L1(0.02), jnp.zeros(10), loss, batch), shards_of(sites)
    L = float(smoothness(problem, shards, problem.x0, jax.random.key(0)))
    options: Any = dict(rounds=20_000, every=20_000, observe={"objective": ObjectiveValue()})
    solved = simulate(ProximalGradient(1 / L), problem, shards, **options)
    optimum, x = float(solved.history["objective"][-1]), jnp.asarray(solved.model)
    path = [t * x for t in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)]
    constants = theory.estimate(problem, shards, path, optimum)
    algorithm = (theory.steps_37 if theorem == "3.7" else theory.steps_35)(constants, TAU)
    return Case(theorem, problem, shards, algorithm, constants, optimum, np.asarray(x), rounds)


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """Per theorem, one row per seed and round: Omega, |G|^2, the distance to x*, and each bound."""
    seeds, rounds = FORMS[quick].values()
    found = cases(rounds)
    return len(found), (runs(c, seeds if c.problem.batch else 1) for c in found)


def runs(c: Case, seeds: int) -> Frame:
    with precision(np.float64):
        observe = {
            "omega": Omega(c.optimum),
            "lambda": LambdaTerm(),
            "residual": ProxGradient(float(c.algorithm.eta_round)),
            "distance": DistanceTo(jnp.asarray(c.solution)),
        }
    frames = []
    for seed in range(seeds):
        frame = run(
            c.algorithm, c.problem, c.shards, observe, rounds=c.rounds, every=1, seed=seed
        ).drop(columns="seconds")
        frames.append(with_bounds(frame, c).assign(theorem=c.theorem, seed=seed))
    return pd.concat(frames)


def with_bounds(frame: Frame, c: Case) -> Frame:
    """Adds what the theorem bounds and its bound, with both noise constants."""
    k, a, batch = c.constants, c.algorithm, c.problem.batch
    printed, redone = theory.PRINTED_NOISE, theory.noise_coefficient(k, a)
    rounds, omega = frame["round"].to_numpy(), frame["omega"].to_numpy()
    g2 = frame["residual"].to_numpy() ** 2
    if c.theorem == "3.5":
        after = np.arange(1, len(g2) + 1)
        value = np.cumsum(g2) / after
        bound = lambda noise: theory.bound_35(k, a, batch, omega[0], after, noise)
    elif c.theorem == "3.7":
        length = float(norm(jnp.asarray(c.solution)))
        # Omega_sc measures the drift without the division by eta_round.
        value = (frame["distance"] * length) ** 2 + frame["lambda"] * float(a.eta_round)
        bound = lambda noise: theory.bound_37(k, a, batch, value.iloc[0], rounds)
    else:
        value = omega
        bound = lambda noise: theory.bound_36(k, a, batch, omega[0], rounds, noise)
    allowed = lambda noise: theory.descent_allowance(k, a, batch, noise, g2)
    return frame.assign(
        value=value,
        printed_bound=bound(printed),
        redone_bound=bound(redone),
        growth=np.append(np.diff(omega), np.nan),
        allowed=allowed(redone),
        printed_allowed=allowed(printed),
        redone_noise=redone,
    )


def draw(frame: Frame) -> dict[str, Figure]:
    names = list(frame.theorem.unique())
    figure, axes = plots.panels(len(names), width=3.6)
    for ax, theorem in zip(axes, names, strict=True):
        part = where(frame, theorem=theorem).groupby("round").mean(numeric_only=True)
        _, printed, redone = BOUNDS
        ax.plot(part["value"], color=style("Algorithm 1")["color"], label="measured")
        ax.plot(part["printed_bound"], label=printed, **BOUNDS[printed])
        if not np.allclose(part["printed_bound"], part["redone_bound"]):
            ax.plot(part["redone_bound"], label=redone, **BOUNDS[redone])
        what = MEASURED.get(theorem, r"$\Omega$")
        plots.label(ax, f"Theorem {theorem}", "communication round", what, legend=False)
    plots.legend_below(figure, axes)
    return {"theory": figure}


def ratios(theorem: str):
    """Each seed's largest ratio of measurement to bound after the first round, and the last one."""

    def measure(frame: Frame) -> Frame:
        part = where(frame, theorem=theorem)
        part = part[part["round"] > 0].assign(ratio=lambda t: t["value"] / t["printed_bound"])
        by_seed = part.sort_values("round").groupby("seed")["ratio"]
        return pd.DataFrame({"largest": by_seed.max(), "last": by_seed.last()})

    return measure


def bound_claim(theorem: str, quote: str, measured: str, certain: bool = False) -> Claim:
    return Claim(
        f"the bound of Theorem {theorem}",
        f"Theorem {theorem.split(',')[0]}",
        quote,
        f"{measured} over its printed bound, after each round but the first, where both are equal",
        "for a seed, it is at most 1 in every round: the theorem bounds the mean over seeds, and "
        "a bound on each is one on the mean",
        ratios(theorem),
        lambda q: {"below": q["largest"] <= 1},
        certain=certain,
    )


PL_BOUND = "E[Ω^(R+1)] ≤ (1 − μη̃/3)^R E[Ω¹] + 18σ²/(μnτb) + 168 L² η̃² B_g²/(μη_g²)."
CLAIMS = (
    bound_claim(
        "3.5",
        "[...] ≤ E[Ω¹]/(0.3 η̃ R) + 20σ²/(nτb) + 187 L² η̃² B_g²/η_g².",
        "mean of |G|^2 so far",
    ),
    bound_claim("3.6", PL_BOUND, "Omega"),
    bound_claim("3.6, full gradients", PL_BOUND, "Omega", certain=True),
    bound_claim(
        "3.7",
        "[...] + 30 η̃σ²/(μ_sc nτb) + 21 η̃ B_g²/(μ_sc η_g²).",
        "Omega_sc",
    ),
)


def descent(frame: Frame) -> Frame:
    """The share of rounds in which the mean of Omega grows by no more than is allowed."""
    part = frame[frame.theorem.str.startswith(("3.5", "3.6"))]
    mean = part.groupby(["theorem", "round"]).mean(numeric_only=True).dropna(subset=["growth"])
    slack = 1e-12
    return pd.DataFrame(
        {
            "with the printed constant 6": [
                (mean["growth"] <= mean["printed_allowed"] + slack).mean()
            ],
            "with the constant redone": [(mean["growth"] <= mean["allowed"] + slack).mean()],
            "the constant redone": [float(part["redone_noise"].iloc[0])],
        }
    )


FINDINGS = (
    Finding(
        "The noise constant 6 of the descent is not proven as printed",
        "share of rounds in which the inequality holds for means over seeds",
        descent,
        "The same algebra gives the larger constant at these steps, and 6 from eta_g = sqrt(n) on; "
        "the inequality with 6 held in what was measured.",
    ),
)
