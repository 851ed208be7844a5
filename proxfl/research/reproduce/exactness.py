"""Our theorems against runs: bounds of the paper and ours, and how long a round may step.

Bounds: runs of Algorithm 1 with full gradients and with batches, the bound that docs/theory.md
proves and, where its conditions hold, the one the paper prints. Expectations are means over seeds.

Longest stable steps: what the linearised round predicts, against the longest step with which a run
that starts next to the solution comes back to it, and one that starts from zero arrives.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from proxfl.algorithms import Accelerated, Decoupled
from proxfl.algorithms.exactness import longest_step
from proxfl.data import Design, lasso, logistic
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import ObjectiveValue, ProxGradient
from proxfl.engine.simulate import simulate
from proxfl.losses import Logistic, SigmoidLoss, Squared
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1, Simplex
from proxfl.research import theory
from proxfl.research.reproduce import stability
from proxfl.research.reproduce.claims import Finding
from proxfl.research.runs import run, where
from proxfl.research.styles import BOUNDS, SHADES, style

TAU, BATCH = 5, 8
FORMS = {"rounds": 5000, "seeds": 20}, {"rounds": 300, "seeds": 3}  # whole and quick
CAPTIONS = {
    "bounds": "Means over seeds, and bounds on them. An objective is known up to its rounding, "
    "some 1e-15 here: where a bound falls below that, what is measured does not speak to it.",
    "steps": "Longest stable steps, predicted and measured, times the largest curvature λ of the "
    "mean loss at the solution.",
}
COLOUR = style("Algorithm 1")["color"]
ROUNDING = 1e-14  # of an objective of about 1: differences below it are none
RESIDUAL, GAP = r"mean of $\|\mathcal{G}\|^2$ so far", r"$F - F^\star$"


class Case(NamedTuple):
    name: str
    measure: str  # RESIDUAL or GAP
    problem: Problem
    shards: Shard
    constants: theory.Constants
    steps: Decoupled
    optimum: float


def panels() -> list[dict[str, Any]]:
    """What is asked of `case` for each panel."""
    design = Design(clients=20, rows=80, features=10, feature_shift=0.5, coef_shift=0.5)
    labelled, measured = (make(design, nonzeros=3, seed=0).sites for make in (logistic, lasso))
    labelled, measured = shards_of(labelled), shards_of(measured)
    sparse, zeros = L1(0.02), jnp.zeros(10)
    squares = {"measure": GAP, "problem": Problem(sparse, zeros, Squared()), "shards": measured}
    classes = {
        "measure": RESIDUAL,
        "problem": Problem(sparse, zeros, Logistic()),
        "shards": labelled,
    }
    simplex = squares | {"problem": Problem(Simplex(1.0), jnp.full(10, 0.1), Squared())}
    wavy = classes | {"problem": Problem(L1(0.002), zeros, SigmoidLoss())}
    return [
        {"name": "ℓ₁ logistic, the paper's steps"} | classes,
        {"name": "ℓ₁ least squares, the paper's steps"} | squares,
        {"name": "simplex, the longest step of B", "longest": True} | simplex,
        {"name": "ℓ₁ logistic, batches of 8", "batch": BATCH} | classes,
        {"name": "ℓ₁ least squares, batches of 8", "batch": BATCH} | squares,
        {"name": "ℓ₁ sigmoid, the longest step of A", "longest": True} | wavy,
    ]


def case(
    name: str, measure: str, problem: Problem, shards: Shard, batch=None, longest: bool = False
) -> Case:
    """A problem with the paper's longest steps, or ours where those are longer or the only ones."""
    optimum, x = solve(problem, shards)
    path = [t * x + (1 - t) * problem.x0 for t in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)]
    constants = theory.estimate(problem, shards, path, optimum)
    steps = theory.steps_35(constants, TAU)
    if longest:
        L, L_f = constants.smoothness.value, constants.mean_smoothness.value
        mu = constants.proximal_pl.value if measure == GAP else 0.0
        steps = Decoupled(longest_step(L, L_f, 1.0, TAU, mu) / TAU, 1.0, TAU)
    drawn = Problem(problem.g, problem.x0, problem.loss, batch)
    # What is found for a loss that is not convex may not be the least; losses are at least zero.
    least = optimum if constants.strong_convexity.value > 0 else 0.0
    return Case(name, measure, drawn, shards, constants, steps, least)


def solve(problem: Problem, shards: Shard) -> tuple[float, Any]:
    options: Any = {"rounds": 5000, "every": 5000, "progress": False}
    seen: Any = {"observe": {"objective": ObjectiveValue()}}
    L = stability.mean_curvature(problem, shards)
    solved = simulate(Accelerated(Decoupled(1 / L)), problem, shards, **options, **seen)
    return float(solved.history["objective"][-1]), jnp.asarray(solved.model)


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    steps = {"steps": stability.plan(quick), "stability rounds": stability.ROUNDS}
    return {**FORMS[quick], "tau": TAU, "batch": BATCH, **steps}


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """Rows of bounds, one per panel, seed and round; and rows of steps, one per problem and tau."""
    with precision(np.float64):
        asked, plan = panels(), stability.plan(quick)
    rounds, seeds = FORMS[quick].values()

    def parts() -> Iterator[Frame]:
        for one in asked:
            with precision(np.float64):
                c = case(**one)
            yield runs(c, rounds, seeds if c.problem.batch else 1)
        for one in plan:
            with precision(np.float64):
                yield pd.DataFrame([stability.limits(*one)]).assign(part="steps")

    return len(asked) + len(plan), parts()


def runs(c: Case, rounds: int, seeds: int) -> Frame:
    """The mean over seeds, at rounds that are evenly spread on both kinds of axis."""
    with precision(np.float64):
        observe = {"objective": ObjectiveValue(), "G": ProxGradient(float(c.steps.eta_round))}
    options: Any = {"rounds": rounds, "every": 1}
    frames = [run(c.steps, c.problem, c.shards, observe, **options, seed=s) for s in range(seeds)]
    mean = pd.concat(frames).groupby("round", as_index=False).mean()
    spread = np.append(np.geomspace(1, rounds, 60), np.linspace(0, rounds, 100))
    with precision(np.float64):
        found = with_bounds(mean, c).assign(part="bounds", panel=c.name, seeds=seeds)
    return found[found["round"].isin(spread.astype(int))]


def with_bounds(frame: Frame, c: Case) -> Frame:
    """What is measured, our bound, and the paper's as printed and with its noise redone."""
    batch, k = c.problem.batch, c.constants
    setting = theory.Setting.of(k, c.steps)
    start = theory.starting(
        c.problem, c.shards, c.problem.g.prox(c.problem.x0, setting.step), c.optimum
    )
    noise = None if batch is None else theory.GradientNoise(k.variance.value / batch, k.effective)
    rounds, mu = frame["round"].to_numpy(), k.proximal_pl.value
    omega1 = start.gap + setting.step / setting.eta_g**2 * start.heterogeneity
    if c.measure == RESIDUAL:
        after = rounds + 1
        value, ours = (frame["G"] ** 2).cumsum() / after, setting.residual(start, after, noise)
        covered, known = setting.covers(noisy=batch is not None), theory.bound_35
    else:
        after = rounds
        value = frame["objective"] - c.optimum
        ours = setting.objective(start, mu, rounds, noise)
        covered, known = setting.covers(mu, noisy=batch is not None), theory.bound_36
    assert covered, f"{c.name}: steps outside our conditions"
    demanded = [x.holds for x in theory.conditions(k, c.steps) if x.theorem == "3.5"]
    printed, redone = (
        known(k, c.steps, batch, omega1, after, constant) if all(demanded) else np.nan
        for constant in (theory.PRINTED_NOISE, theory.noise_coefficient(k, c.steps))
    )
    table = {"round": rounds, "value": value, "ours": ours, "paper": printed, "redone": redone}
    return pd.DataFrame(table).assign(measure=c.measure)


def draw(frame: Frame) -> dict[str, Figure]:
    return {
        "bounds": draw_bounds(where(frame, part="bounds")),
        "steps": draw_steps(where(frame, part="steps")),
    }


def draw_bounds(frame: Frame) -> Figure:
    names = list(frame.panel.unique())
    figure, axes = plots.panels(3, width=3.5, height=2.9, rows=2)
    ours, paper, redone = BOUNDS
    for ax, name in zip(axes.ravel(), names, strict=False):
        rows = where(frame, panel=name)
        measure, x = rows["measure"].iloc[0], rows["round"]
        ax.plot(x, rows["value"].clip(lower=1e-16), color=COLOUR, label="measured")
        ax.plot(x, rows["ours"], label=ours, **BOUNDS[ours])
        ax.plot(x, rows["paper"], label=paper, **BOUNDS[paper])
        if not np.allclose(rows["paper"], rows["redone"], equal_nan=True):
            ax.plot(x, rows["redone"], label=redone, **BOUNDS[redone])
        if rows["paper"].isna().all():
            none, colour = "no bound by the paper", BOUNDS[paper]["color"]
            ax.text(0.96, 0.9, none, color=colour, ha="right", transform=ax.transAxes)
        # A rate 1/rounds is a line on two logarithmic axes, a linear rate on one.
        log = "xy" if measure == RESIDUAL else "y"
        plots.label(ax, name, "rounds", measure, log=log, legend=False)
        if rows["ours"].min() < ROUNDING:  # a bound below what can be measured
            top = rows[["value", "ours", "paper"]].max().max()
            ax.set_ylim(1e-2 * ROUNDING, 10 * top)
    plots.legend_below(figure, axes.ravel())
    return figure


def draw_steps(table: Frame) -> Figure:
    """Left: one problem, all tau. Right: the other problems too."""
    figure, (left, right) = plots.panels(2, width=4.6, height=3.6)
    by_curvature = table[["predicted", "near", "cold", "proven"]].mul(table["curvature"], axis=0)
    table = table[["problem", "eta_g", "tau"]].join(by_curvature)
    main = where(table, problem=stability.MAIN).sort_values("tau")
    for colour, (eta_g, rows) in zip(SHADES, main.groupby("eta_g"), strict=False):
        about, points = rf"$\eta_g = {eta_g:g}$: ", {"color": colour, "linestyle": ""}
        tau, hollow = rows["tau"], points | {"marker": "o", "fillstyle": "none"}
        left.plot(tau, rows["predicted"], color=colour, label=about + "predicted")
        left.plot(tau, rows["near"], **hollow, label=about + r"measured near $x^\star$")
        left.plot(tau, rows["cold"], marker="x", **points, label=about + "measured from 0")
        left.plot(tau, rows["proven"], ":", color=colour, label=about + "proven, Theorem A")
    for i, (name, rows) in enumerate(table.groupby("problem")):
        look = {"marker": plots.MARKERS[i], "color": COLOUR, "fillstyle": "none"}
        right.plot(rows["predicted"], rows["near"], linestyle="", label=name, **look)
    ends = [0.8 * table["predicted"].min(), 1.25 * table["predicted"].max()]
    right.plot(ends, ends, color=plots.COLOURS[-1], linewidth=0.8)
    longest = r"longest stable $\tilde\eta \, \lambda$"
    plots.label(left, r"$\ell_1$ least squares", r"local steps $\tau$", longest, "xy", False)
    measured = r"measured near $x^\star$"
    plots.label(right, "all problems", f"predicted {longest}", measured, "xy", False)
    plain(left.xaxis, sorted(main["tau"].unique()))
    for axis in (left.yaxis, right.xaxis, right.yaxis):
        plain(axis, (0.25, 0.5, 1, 2, 4, 8, 16, 32))
    lines, names = (
        a + b
        for a, b in zip(
            left.get_legend_handles_labels(), right.get_legend_handles_labels(), strict=True
        )
    )
    figure.legend(lines, names, loc="outside right center")
    return figure


def plain(axis: Any, ticks: Any) -> None:
    """A logarithmic axis with these numbers on it, as far as they are in view."""
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    seen = [tick for tick in ticks if low <= tick <= high]
    axis.set_ticks(seen, [f"{tick:g}" for tick in seen])


def against_bounds(frame: Frame) -> Frame:
    """Each panel's largest ratio of measurement to our bound, where that is above rounding."""
    rows = where(frame, part="bounds")
    rows = rows[(rows["round"] > 0) & (rows["ours"] >= ROUNDING)]
    ratio = (rows["value"] / rows["ours"]).groupby(rows["panel"], sort=False).max()
    return ratio.to_frame().T


def against_prediction(frame: Frame) -> Frame:
    """For every problem and tau, the longest stable steps over the predicted one."""
    rows = where(frame, part="steps")
    names = {"near": "from near the solution", "cold": "from zero"}
    return pd.DataFrame({name: rows[key] / rows["predicted"] for key, name in names.items()})


# The theorems are ours: what the paper claims is judged elsewhere.
CLAIMS = ()
FINDINGS = (
    Finding(
        "Bounds without bounded subgradients",
        "largest ratio of the measurement to the bound of docs/theory.md, by experiment, over the "
        f"rounds after the first in which the bound is above {ROUNDING:g}, an objective's rounding",
        against_bounds,
        "Two experiments are outside the paper's conditions: a constraint, and longer steps.",
    ),
    Finding(
        "A spectral radius predicts the longest stable step",
        "longest stable step over the predicted one, in runs from near the solution and from zero",
        against_prediction,
        "Steps tried are a hundredth apart next to the prediction, so no ratio is finer.",
    ),
)
