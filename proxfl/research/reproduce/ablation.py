"""What each part of Algorithm 1 is for: its inner prox, its decoupling, its correction.

One family of problems serves all: l1 least squares with known truth, n = 10 clients whose features
and coefficients differ, full gradients, tau = 10, eta_g = 3 and eta_round = 0.5 / L of the mean
loss. The splitting methods that the paper sets aside run on the same problems, with a fixed number
of warm-started local gradient steps.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxfl.algorithms import (
    AsPrinted,
    Coupled,
    Decoupled,
    FedADMM,
    FedDR,
    Mime,
    ProximalGradient,
    Scaffold,
)
from proxfl.algorithms.decoupled import Memory
from proxfl.algorithms.wrappers.wrapper import Wrapper
from proxfl.core import Algorithm, Objective, Regulariser
from proxfl.data import Design, lasso
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.blocks import mean_gradient
from proxfl.engine.measure import DistanceTo, MeanCorrection, Observer
from proxfl.engine.messages import round_bytes
from proxfl.engine.sweep import sweep
from proxfl.losses import Squared
from proxfl.points import Point, norm, zeros_like
from proxfl.precision import precision
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox import L1
from proxfl.pytree import pytree
from proxfl.research.reproduce.claims import BANDS, EXACT, PRECISE, Claim, Finding
from proxfl.research.runs import Trial, curves, final, rounds_to, traces, where
from proxfl.research.styles import STYLES, style, variant

TAU, ETA_G, D, THETA = 10, 3.0, 20, 0.1
ROUNDS = 3000  # where a setting has no number of its own
CAPTIONS = {"ablation": BANDS}


@pytree
class Uncorrected(Wrapper):
    """Algorithm 1 with c_i = 0: the control for what its correction does."""

    inner: Decoupled

    def client(self, f: Objective, g: Regulariser, state: Memory, down: Point, key):
        return self.inner.client(f, g, Memory(down, zeros_like(down)), down, key)


@pytree
class LongestCorrection(Observer):
    """The longest of the clients' corrections."""

    def __call__(self, seen):
        return jnp.max(jax.vmap(norm)(seen.corrections))


class Setting(NamedTuple):
    """One run: which study it belongs to, what varies, and the dials of the data."""

    study: str
    case: str
    make: Callable[[float], Algorithm]  # from L of the mean loss
    clients: int = 10
    shift: float = 1.0
    theta: float = THETA
    kind: Any = np.float64
    rounds: int = ROUNDS
    at_solution: bool = False  # start where the solution is a fixed point


def ours(method: Any = Decoupled, *inner: str) -> Callable[[float], Algorithm]:
    return lambda L: method(0.5 / (L * ETA_G * TAU), ETA_G, TAU, *inner)


def splitting(method: Any) -> Callable[[float], Algorithm]:
    """gamma = 1/L, and inner steps a tenth of the inner problem's stability with L_i up to 10 L."""
    return lambda L: method(1 / L, 1 / (11 * L), TAU)


SETTINGS = (
    *(
        Setting("inner prox", inner, ours(Decoupled, inner))
        for inner in ("growing", "constant", "none")
    ),
    Setting("decoupling", "decoupled", ours()),
    Setting("decoupling", "coupled", ours(Coupled)),
    *(
        Setting("correction", f"{how}, heterogeneity {shift:g}", make, shift=shift, rounds=10_000)
        for how, make in (
            ("with", ours()),
            ("without", lambda L: Uncorrected(ours()(L))),  # pyright: ignore
        )
        for shift in (0.0, 1.0, 3.0)
    ),
    *(Setting("penalty", f"theta = {theta:g}", ours(), theta=theta) for theta in (0.01, 0.1, 1.0)),
    *(
        Setting(
            "one client, from the solution",
            inner,
            ours(Decoupled, inner),
            1,
            rounds=200,
            at_solution=True,
        )
        for inner in ("growing", "constant", "none")
    ),
    Setting("splitting", "FedDR", splitting(FedDR)),
    Setting("splitting", "FedADMM", splitting(FedADMM)),
    *(
        Setting("message", name, ours(method), kind=kind, rounds=10_000)
        for method, name, kind in (
            (AsPrinted, "z_hat, double precision", np.float64),
            (AsPrinted, "z_hat, single precision", np.float32),
            (Decoupled, "summed gradients, single precision", np.float32),
        )
    ),
)


class DrawnSites(NamedTuple):
    shards: Shard
    L: float
    solution: np.ndarray
    start: np.ndarray  # of a run that is to begin at the solution


@cache
def federations(clients: int, shift: float, theta: float, seeds: int) -> list[DrawnSites]:
    """Draws of the data with their smoothness and their solution, all solved together."""
    design = Design(clients=clients, rows=60, features=D, feature_shift=shift, coef_shift=shift)
    made = [lasso(design, nonzeros=5, seed=seed) for seed in range(seeds)]
    smooth = [float(one.recipe["facts"]["lambda_max"]) for one in made]
    problem = problem_with(theta, np.zeros(D))
    with precision(np.float64):
        shards = [shards_of(one.sites) for one in made]
        methods = [ProximalGradient(1 / L) for L in smooth]
        options: Any = dict(rounds=30_000, every=30_000, observe={}, progress=False)
        options["observe"] = [{"distance": DistanceTo(jnp.ones(D))}] * seeds
        solved = [np.asarray(x) for x in sweep(methods, problem, shards, **options).models]
        slope = jax.jit(lambda shard, x: mean_gradient(problem.normalised(), shard, x))
        moves = [np.asarray(slope(s, jnp.asarray(x))) for s, x in zip(shards, solved, strict=True)]
    starts = [x - 0.5 / L * v for x, v, L in zip(solved, moves, smooth, strict=True)]
    return [DrawnSites(*each) for each in zip(shards, smooth, solved, starts, strict=True)]


def problem_with(theta: float, x0: np.ndarray) -> Problem:
    return Problem(g=L1(theta), x0=x0, loss=Squared())


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    named = [f"{one.study}: {one.case}, {one.rounds} rounds" for one in SETTINGS]
    return {"draws": 2 if quick else 20, "tau": TAU, "eta_g": ETA_G, "d": D, "runs": named}


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """One row per setting, draw and observed round; a part is one setting's runs."""
    return len(SETTINGS) + 1, parts(settings(quick)["draws"])


def parts(seeds: int) -> Iterator[Frame]:
    for setting in SETTINGS:
        yield runs(setting, seeds)
    yield messages(seeds)


def runs(setting: Setting, seeds: int) -> Frame:
    drawn = federations(setting.clients, setting.shift, setting.theta, seeds)
    kind = setting.kind
    with precision(kind):
        narrow = lambda a: a.astype(kind) if jnp.issubdtype(a.dtype, jnp.floating) else a
        shards = [jax.tree.map(lambda a: narrow(jnp.asarray(a)), d.shards) for d in drawn]
        starts = [d.start if setting.at_solution else np.zeros(D) for d in drawn]
        solutions = [jnp.asarray(d.solution, kind) for d in drawn]
    more: dict[str, Observer] = {}
    if setting.study == "message":
        more = {"mean_correction": MeanCorrection(), "correction": LongestCorrection()}
    trials = [
        Trial(
            seed=seed,
            algorithm=setting.make(d.L),
            problem=problem_with(setting.theta, starts[seed].astype(kind)),
            shards=shards[seed],
            step=1 / d.L,
            more={"distance": DistanceTo(solutions[seed])} | more,
        )
        for seed, d in enumerate(drawn)
    ]
    table = traces({"study": setting.study, "case": setting.case}, trials, setting.rounds)
    return table.drop(columns="objective")


def messages(seeds: int) -> Frame:
    """Vectors of the model's length that a client sends and gets in a round, by message shapes."""
    drawn = federations(10, 1.0, THETA, seeds)[0]
    problem = problem_with(THETA, np.zeros(D))
    rows = []
    for method in (Decoupled, Scaffold, Mime):
        with precision(np.float64):
            up, down = round_bytes(method(0.01, 1.0, TAU), problem.normalised(), drawn.shards)
        case = {"study": "vectors", "case": method.__name__, "seed": 0, "round": 1}
        rows.append(case | {"up": up / (8 * D), "down": down / (8 * D)})
    return pd.DataFrame(rows)


PANELS = {
    "inner prox": "inner prox",
    "decoupling": "decoupling",
    "correction": "correction",
    "penalty": r"penalty $\vartheta$ = 0.01, 0.1, 1",
    "splitting": "splitting with 10 local steps",
    "message": "message",
}


def draw(frame: Frame) -> dict[str, Figure]:
    figure, axes = plots.panels(3, rows=2, width=3.8, height=3.4)
    for ax, (study, title) in zip(axes.ravel(), PANELS.items(), strict=True):
        part = where(frame, study=study).rename(columns={"case": "method"})
        names = enumerate(part["method"].unique())
        looks = {name: style(name) if name in STYLES else variant(i) for i, name in names}
        seen = ("optimality", "optimality")
        if study == "message":
            seen = ("distance", "relative distance to $x^\\star$")
        curves(ax, part, looks, title, *seen)
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.2),
            ncols=1 + (study == "penalty"),
            fontsize=7,
        )
    return {"ablation": figure}


def ends(frame: Frame, study: str, column: str = "optimality") -> Frame:
    """The last value of every case of a study, by draw."""
    part = where(frame, study=study)
    cases = part["case"].unique()
    return pd.DataFrame({case: final(where(part, case=case), column) for case in cases})


def drift(frame: Frame) -> Frame:
    return ends(frame, "correction")


def fixed_point(frame: Frame) -> Frame:
    """The farthest that a run from the solution gets away from it."""
    part = where(frame, study="one client, from the solution")
    cases = part["case"].unique()
    far = {case: where(part, case=case).groupby("seed")["distance"].max() for case in cases}
    return pd.DataFrame(far)


def mean_correction(frame: Frame) -> Frame:
    rows = where(frame, study="message", case="z_hat, double precision")
    ratio = rows["mean_correction"] / rows["correction"]
    return pd.DataFrame({"|mean c| / max |c_i|": ratio.groupby(rows["seed"]).max()})


def vectors(frame: Frame) -> Frame:
    part = where(frame, study="vectors").set_index("case")
    columns = {
        f"{case} {way}": [part.loc[case, way]] for case in part.index for way in ("up", "down")
    }
    return pd.DataFrame(columns)


def fixed_work(frame: Frame) -> Frame:
    return ends(frame, "splitting").assign(
        **{
            f"rounds to 1e-6, {name}": rounds_to(where(frame, study="splitting", case=name), 1e-6)
            for name in ("FedDR", "FedADMM")
        }
    )


CLAIMS = (
    Claim(
        "(t + 1) eta improves performance",
        "Section 2.2, item 4",
        "This parameter (t+1)η significantly improves the practical performance",
        "final optimality by the step of the inner prox: growing (the paper's), constant, none",
        "in a draw, each of the others ends ten times above the growing one",
        lambda frame: ends(frame, "inner prox"),
        lambda q: {
            case: q[case] > 10 * q["growing"].clip(lower=PRECISE) for case in ("constant", "none")
        },
    ),
    Claim(
        "one client: it stops at the solution",
        "Appendix A.2",
        "In the special case where n = 1 and we use full gradients, we have shown that "
        "employing the parameter (t+1)η allows Algorithm 2 to stop at x*.",
        "n = 1, from the pre-image of the solution: the largest relative distance from the "
        "solution in 200 rounds",
        "in a draw, the growing inner step stays within 1e-9, which solving to rounding allows, "
        "and no other does",
        fixed_point,
        lambda q: {
            "it stops": q["growing"] <= 1e-9,
            "because of (t + 1) eta": q[["constant", "none"]].min(axis=1) > 1e-9,
        },
    ),
    Claim(
        "a residual error from non-smoothness",
        "Appendix A.2",
        r"Our theorems indicate that Algorithm 1 is subject to residual errors due to stochastic "
        r"gradients and non-smoothness, preventing it from converging exactly to x* and stopping "
        r"at x*.",
        "full gradients, so that only non-smoothness is left: final optimality",
        f"in a draw, a residual above {EXACT:g} is left; what noise leaves is a claim of its own",
        lambda frame: ends(frame, "inner prox")[["growing"]],
        lambda q: {"from non-smoothness": q["growing"] > EXACT},
        "The sentence says what the theorems indicate, and Remark 3.8 that experiments do not show "
        "it. The solution with c_i = grad f(x*) - grad f_i(x*) is a fixed point for every n.",
    ),
    Claim(
        "post-proximal messages lose the mean gradient",
        "Section 2.2, item 1",
        r"then the server could no longer extract the average gradient due to the nonlinearity of "
        r"the proximal operator.",
        "final optimality of Algorithm 1 and of its coupled form as printed",
        "in a draw, the coupled form ends ten times above",
        lambda frame: ends(frame, "decoupling"),
        lambda q: {"coupled": q["coupled"] > 10 * q["decoupled"].clip(lower=PRECISE)},
    ),
    Claim(
        "client drift is eliminated",
        "Section 2.2, item 2",
        r"This allows our algorithm to eliminate the client drift.",
        "final optimality with the correction and without it (c_i = 0), by heterogeneity of "
        "features and coefficients",
        f"in a draw, the run with correction ends at or below {EXACT:g} at every heterogeneity, "
        "and without it the run ends above that wherever clients differ",
        drift,
        lambda q: {
            **{f"with, {h}": q[f"with, heterogeneity {h}"] <= EXACT for h in (0, 1, 3)},
            **{f"control, {h}": q[f"without, heterogeneity {h}"] > EXACT for h in (1, 3)},
        },
    ),
    Claim(
        "unaffected by B_g",
        "Remark 3.8",
        "when we eliminate σ² by use of full gradients, our algorithm converges exactly "
        r"and is unaffected by B_g",
        "final optimality with theta, and so B_g = theta sqrt(d), over two orders of magnitude",
        f"in a draw, it ends at or below {EXACT:g} at each",
        lambda frame: ends(frame, "penalty"),
        lambda q: {case: q[case] <= EXACT for case in q},
    ),
    Claim(
        "corrections average to zero",
        "Section 2.2, item 1",
        r"Since the average of the correction terms across clients is always zero",
        "norm of the mean correction over the longest one, largest over 10,000 rounds in double "
        "precision, z_hat sent as printed",
        "in a draw, below 1e-9: rounding accumulates over rounds, at worst like their number",
        mean_correction,
        lambda q: {"zero": q.iloc[:, 0] <= 1e-9},
    ),
    Claim(
        "one vector, where others need two",
        "Section 2.2, item 3; Section 1.1",
        r"Unlike Scaffold and Mime, who overcome client drift for smooth problems at the cost of "
        r"additional communication for control variates, our algorithm only exchanges one "
        "d-dimensional vector per communication round and client.",
        "vectors of length d per client and round, from the messages' shapes",
        "Algorithm 1 sends one and gets one, Scaffold and Mime more",
        vectors,
        lambda q: {
            "Algorithm 1": (q["Decoupled up"] == 1) & (q["Decoupled down"] == 1),
            "Scaffold": q["Scaffold up"] + q["Scaffold down"] > 2,
            "Mime": q["Mime up"] + q["Mime down"] > 2,
        },
        certain=True,
    ),
    Claim(
        "FedDR and FedADMM need very many local updates",
        "Section 1.1",
        r"However, to ensure convergence, the accuracy needs to increase by every iteration, "
        r"resulting in an impractically large number of local updates.",
        "final optimality of FedDR and FedADMM with ten warm-started gradient steps in every round",
        "none: the sentence is about what a theory asks for on every non-convex problem, and a run "
        "on one problem, here a strongly convex one, can neither confirm nor refute that",
        fixed_work,
        lambda q: {},
        "On this problem ten steps suffice: warm starts make the inner error shrink along with the "
        "outer one.",
    ),
    Claim(
        "FedADMM performs like FedDR",
        "Section 1.1",
        r"FedADMM, utilizes FedDR [...] and was demonstrated to have identical performance "
        r"to FedDR.",
        "rounds to 1e-6 at the same gamma and local steps, FedDR with alpha = 1",
        "in a draw, they differ by no more than one observation (30 rounds)",
        fixed_work,
        lambda q: {
            "identical": (q["rounds to 1e-6, FedDR"] - q["rounds to 1e-6, FedADMM"]).abs() <= 30
        },
        "With alpha = 1 and equal inner work the two are one iteration in two notations, and the "
        "league enters them as one: it can fail only by a fault in one of our two programs.",
    ),
)

FINDINGS = (
    Finding(
        "Single precision: z_hat drifts, summed gradients do not",
        "relative distance to the solution after 10,000 rounds",
        lambda frame: ends(frame, "message", "distance"),
        "One message does suffice. But with z_hat nothing pulls a rounding error in the mean "
        "correction back; our uplink is the sum of gradients, the same in exact arithmetic.",
    ),
)
