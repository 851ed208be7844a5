"""Figure 2: the same with stochastic gradients, tau = 20, b = 1 and b = 20, theta = 0.0005.

Steps as printed (eta = 2, eta_g = 8), 2,000 rows per client, batches drawn without replacement.
"The other settings are the same" as in Figure 1, so features are scaled as there.

Runs go on to a plateau, of which three numbers are kept per draw: the root mean square of the
optimality in the last quarter of the rounds; the same in the quarter before, which shows whether it
still falls; and the bias, which is the optimality of the mean model over the last quarter: noise
averages out of that mean, and drift does not.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxfl.algorithms import Decoupled, FedDA
from proxfl.core import Algorithm
from proxfl.data import Scaling, synthetic
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.blocks import mean_gradient
from proxfl.engine.measure import Observer, prox_gradient
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1
from proxfl.pytree import pytree, static
from proxfl.research.reproduce.claims import Claim, Finding
from proxfl.research.reproduce.fig1_runs import FAST, fast, main_variants, window
from proxfl.research.runs import Trial, between, curves, rounds_to, traces, where
from proxfl.research.styles import style, styles

THETA, TAU, ETA, ETA_G, ROWS, D = 0.0005, 20, 2.0, 8.0, 2000, 20
BATCHES = (1, 20)
SEEN = 200  # observations of a run
MUS = (1e-2, 1e-3)
METHODS = ("Algorithm 1", "FedDA", *FAST)
CAPTIONS = {
    "fig2": "Above: medians over draws, bands from the first to the ninth decile. Below, for each "
    "draw: the bias (optimality of the mean model over the last quarter of the rounds) against the "
    "root mean square of the optimality there; on the dashed line all that is left is bias."
}


@pytree
class Coordinate(Observer):
    """One coordinate of the model, so that models can be averaged over rounds."""

    index: int = static()

    def __call__(self, seen):
        return seen.x[self.index]


def methods(L: float) -> Iterator[tuple[str, str, Algorithm]]:
    yield "Algorithm 1", "", Decoupled(ETA, ETA_G, TAU)
    yield "FedDA", "", FedDA(ETA, ETA_G, TAU)
    yield from fast(MUS, TAU, L)


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    size = {"draws": 2, "rounds": 200} if quick else {"draws": 10, "rounds": 4000}
    steps = {"tau": TAU, "eta": ETA, "eta_g": ETA_G, "mu over L": MUS}
    return size | {"observations": SEEN, "batches": BATCHES, "theta": THETA, "rows": ROWS} | steps


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """One row per batch, method, draw and observed round; a part is one method's runs."""
    seeds, rounds = (settings(quick)[name] for name in ("draws", "rounds"))
    L = window()
    shards = []
    for seed in range(seeds):
        made = synthetic(50.0, 50.0, rows=ROWS, scaling=Scaling("unit", smoothness=L), seed=seed)
        with precision(np.float64):
            shards.append(shards_of(made.sites))
    plan = [(b, method) for b in BATCHES for method in methods(L)]
    return len(plan), (runs(shards, L, rounds, *job) for job in plan)


def runs(
    shards: list[Shard], L: float, rounds: int, batch: int, method: tuple[str, str, Algorithm]
) -> Frame:
    name, variant, algorithm = method
    problem = Problem(g=L1(THETA), x0=np.zeros(D), loss=Logistic(), batch=batch)
    models = {f"x{j}": Coordinate(j) for j in range(D)}
    trials = [Trial(k, algorithm, problem, s, 1 / L, models) for k, s in enumerate(shards)]
    table = traces({"batch": batch, "method": name, "variant": variant}, trials, rounds, SEEN)
    late = table[table["round"] > 0.75 * rounds].groupby("seed")[list(models)].mean()
    bias = {
        k: relative_residual(problem, shards[k], late.loc[k].to_numpy(), 1 / L) for k in late.index
    }
    return table.drop(columns=["objective", *models]).assign(bias=table["seed"].map(bias))


def relative_residual(problem: Problem, shards: Shard, x: np.ndarray, step: float) -> float:
    """The optimality of one model, with the full gradient."""
    with precision(np.float64):
        made = problem.normalised()
        at = lambda x: prox_gradient(made, x, mean_gradient(made, shards, x), step)
        start, here = jax.jit(at)(made.x0), jax.jit(at)(jnp.asarray(x))
        return float(here / start)


def quarter(frame: Frame, first: float, last: float) -> Frame:
    """Each seed's root mean square optimality in that span of the run."""
    part = between(frame, first, last)
    return (part["optimality"] ** 2).groupby(part["seed"]).mean() ** 0.5


def middle(frame: Frame, first: float, last: float) -> Frame:
    """Each seed's median optimality there, which single bursts of noise do not move."""
    return between(frame, first, last).groupby("seed")["optimality"].median()


def plateau(frame: Frame) -> Frame:
    return quarter(frame, 0.75, 1.0)


def shown_of(frame: Frame) -> Frame:
    """The rows a figure shows."""
    return main_variants(frame, ["batch"], plateau)


def draw(frame: Frame) -> dict[str, Figure]:
    shown = shown_of(frame)
    figure, axes = plots.panels(2, rows=2, height=3.2)
    for (above, below), batch in zip(axes.T, BATCHES, strict=True):
        part = where(shown, batch=batch)
        title = f"Stochastic gradients, $b$ = {batch} ({part.seed.nunique()} draws)"
        curves(above, part, styles(METHODS), title)
        for name in METHODS:
            rows = where(part, method=name)
            look = style(name) | {"linestyle": "none", "markersize": 4}
            below.plot(plateau(rows), rows.groupby("seed")["bias"].first(), **look)
        low, high = 1e-6, 1.0
        below.plot([low, high], [low, high], "--", color="0.5", linewidth=0.8)
        plots.label(below, "", "root mean square on the plateau", "bias", log="xy", legend=False)
    plots.legend_below(figure, axes[0], 4)
    return {"fig2": figure}


def levels(frame: Frame, *names: str) -> Frame:
    """Root mean square on the plateau, by method and batch; Fast-FedDA at its best mu."""
    shown = shown_of(frame)
    return pd.DataFrame(
        {
            f"{name}, b = {b}": plateau(where(shown, method=name, batch=b))
            for b in BATCHES
            for name in names
        }
    )


def settled(frame: Frame) -> Frame:
    """How Algorithm 1's plateau compares with the quarter before it."""
    ours = where(frame, method="Algorithm 1")
    ratio = lambda rows: middle(rows, 0.75, 1.0) / middle(rows, 0.5, 0.75)
    columns = {f"last over third quarter, b = {b}": ratio(where(ours, batch=b)) for b in BATCHES}
    return pd.DataFrame(columns).assign(**levels(frame, "Algorithm 1"))


def biases(frame: Frame) -> Frame:
    shown = shown_of(frame)
    return pd.DataFrame(
        {
            f"{name}, b = {b}": where(shown, method=name, batch=b).groupby("seed")["bias"].first()
            for b in BATCHES
            for name in METHODS
        }
    )


SECOND = "Section 4.1, second experiment"
CLAIMS = (
    Claim(
        "stochastic gradients: convergence to a neighbourhood",
        SECOND,
        r"when we use stochastic gradients, our algorithm also converges to a "
        r"neighborhood.",
        "median optimality of Algorithm 1 in the last quarter of 4,000 rounds over that of the "
        "quarter before; and its root mean square there",
        "in a draw, the ratio is between 5/7 and 7/5: what falls like one over the rounds falls by "
        "5/7 from the middle of one quarter to that of the next",
        settled,
        lambda q: {
            f"b = {b}": q[f"last over third quarter, b = {b}"].between(5 / 7, 7 / 5)
            for b in BATCHES
        },
    ),
    Claim(
        "stochastic gradients: larger batches are more precise",
        SECOND,
        r"When we increase the batch size from 1 to 20, the convergence precision of our algorithm "
        r"improves.",
        "root mean square optimality of Algorithm 1 on the plateau",
        "in a draw, it is lower at b = 20 than at b = 1",
        lambda frame: levels(frame, "Algorithm 1"),
        lambda q: {"lower": q["Algorithm 1, b = 20"] < q["Algorithm 1, b = 1"]},
    ),
    Claim(
        "stochastic gradients: the others are worse",
        SECOND,
        r"The other algorithms perform worse due to client drift and/or the use of decaying step "
        r"sizes.",
        "root mean square optimality on the plateau, Fast-FedDA at the best of two mu",
        "in a draw, the other method's is higher than Algorithm 1's",
        lambda frame: levels(frame, *METHODS),
        lambda q: {
            f"{name}, b = {b}": q[f"{name}, b = {b}"] > q[f"Algorithm 1, b = {b}"]
            for b in BATCHES
            for name in METHODS[1:]
        },
    ),
)


def first_to(frame: Frame) -> Frame:
    """Rounds to an optimality of 0.1, which every method reaches."""
    shown = shown_of(frame)
    columns = {}
    for b in BATCHES:
        for name in METHODS:
            rows = where(shown, method=name, batch=b)
            columns[f"{name}, b = {b}"] = rounds_to(rows, 0.1)
    return pd.DataFrame(columns)


FINDINGS = (
    Finding(
        "Stochastic gradients: bias and noise apart",
        "optimality of the mean model over the last quarter of the rounds",
        biases,
        "What remains of Algorithm 1 when noise is averaged out, against FedDA's drift.",
    ),
    Finding(
        "Stochastic gradients: the way to the plateau",
        "rounds to an optimality of 0.1",
        first_to,
    ),
)
