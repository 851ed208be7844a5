"""Not in the paper: does a federated model predict a site that took no part?

Real tables by site. Each site in turn is left out and predicted by

    federated    the l1 model of the other sites, its weight by federated cross-validation,
    others' own  models that the other sites fit alone, each judged by itself, and their mean,
    averaged     one model with the mean of their coefficients,
    FedAvg       without a penalty, 5 local steps; of steps and rounds on a grid those that predict
                 best a fifth of the other sites' rows, left out for that, and then all of them,
    its own      the left-out site's own model, judged on rows it has not seen (five folds).

The score is the share of the loss explained: 1 less the mean loss on the left-out site over that of
its best constant. Every site is a draw; differences are paired by site.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar

from proxfl.algorithms import FedAvg
from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.engine.measure import ObjectiveValue
from proxfl.engine.smoothness import mean_curvature_bound
from proxfl.engine.sweep import sweep
from proxfl.losses.linear import Linear
from proxfl.precision import precision
from proxfl.research.real.problems import CV, loaded, model
from proxfl.research.real.tables import TABLES, Sites
from proxfl.research.reproduce.claims import Finding
from proxfl.research.runs import where
from proxfl.research.styles import style
from proxfl.storage.files import whole
from proxfl.tables import Table
from proxfl.train.model import Model
from proxfl.train.path import ready
from proxfl.train.spec import Spec

FOLDS = 5
WAYS = ("federated", "others' own", "averaged", "FedAvg", "its own")
LOCAL = 5  # local steps of FedAvg
GRID = tuple((step, rounds) for rounds in (20, 100, 500) for step in (0.01, 0.03, 0.1, 0.3, 1.0))
SEEN = {"objective": ObjectiveValue()}
LOWEST = -0.5  # that a figure shows
CAPTIONS = {
    "sites": "Each point is a left-out site; the bar is the median. "
    f"Points below {LOWEST:g} are not shown."
}
LOOKS = {"federated": style("Algorithm 1"), "FedAvg": style("FedAvg")}
PLAIN = {"color": plots.COLOURS[-1], "marker": "."}  # of ways that are no federated method


def settings(quick: bool) -> dict[str, Any]:
    """What the data depend on."""
    tables = ["lung"] if quick else list(TABLES)
    average = {"local steps": LOCAL, "steps times L, rounds": GRID}
    return {"tables": tables, "folds": FOLDS, "cross-validation": CV, "FedAvg": average}


def compute(quick: bool, folder: Path) -> tuple[int, Iterator[Frame]]:
    """One row per table, left-out site and way of predicting it."""
    names = settings(quick)["tables"]
    plan = [(name, site) for name in names for site in np.unique(loaded(name).site)]
    return len(plan), (kept(name, site, folder / "parts") for name, site in plan)


def kept(name: str, site: str, folder: Path) -> Frame:
    """What was found for a site, from the folder if it was found before."""
    path = folder / f"{name}-{site}.csv"
    if not path.exists():
        with whole(path) as file:
            left_out(name, site).to_csv(file, index=False, float_format="%.6g")
    return pd.read_csv(path, dtype={"site": str})


def left_out(name: str, site: str) -> Frame:
    sites = loaded(name)
    here = sites.site == site
    rest = of_rows(sites, ~here)
    others = [alone(name, one) for one in np.unique(rest.site)]
    mean = np.mean([one[0] for one in others], axis=0), float(np.mean([one[1] for one in others]))
    found = {
        "federated": score(sites, here, linear(rest)),
        "others' own": float(np.mean([score(sites, here, one) for one in others])),
        "averaged": score(sites, here, mean),
        "FedAvg": score(sites, here, averaging(rest)),
        "its own": own(sites, here),
    }
    rows = [{"table": name, "site": site, "way": way, "score": s} for way, s in found.items()]
    return pd.DataFrame(rows).assign(rows=int(here.sum()))


@cache
def alone(name: str, site: str) -> tuple[np.ndarray, float]:
    """The model that a site fits to its own rows."""
    sites = loaded(name)
    return linear(of_rows(sites, sites.site == site))


def of_rows(sites: Sites, rows: np.ndarray) -> Sites:
    return sites._replace(X=sites.X[rows], y=sites.y[rows], site=sites.site[rows])


def linear(sites: Sites) -> tuple[np.ndarray, float]:
    """Coefficients and intercept at the cross-validated weight."""
    fitted = model(sites).fit(sites.X, sites.y, sites.site)
    return np.ravel(fitted.coef_), float(np.ravel(fitted.intercept_)[0])


def averaging(sites: Sites) -> tuple[np.ndarray, float]:
    """FedAvg, tuned: what a fifth of the rows, unseen, says is best is run on all of them."""
    unseen = np.random.default_rng(0).permutation(len(sites.y)) % FOLDS == 0
    tried = fedavg(of_rows(sites, ~unseen), GRID)
    finite = [k for k, (coef, _) in enumerate(tried) if np.isfinite(coef).all()]
    (best,) = fedavg(sites, [GRID[max(finite, key=lambda k: score(sites, unseen, tried[k]))]])
    return best


def fedavg(sites: Sites, points: Any) -> list[tuple[np.ndarray, float]]:
    """FedAvg at these steps and rounds on standardised features, in their own units again."""
    features = tuple(f"x{j}" for j in range(sites.X.shape[1]))
    spec = Spec(target="y", loss=sites.loss.name, standardise=True, l1=1e-12)
    tables = [
        Table(one, one, "y", features, sites.X[rows], sites.y[rows], "")
        for one in np.unique(sites.site)
        for rows in [sites.site == one]
    ]
    with precision(np.float64):
        agreement, problem, shards, _ = ready(spec, tables)
        L = float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0)))
        found = []
        for rounds in dict.fromkeys(rounds for _, rounds in points):
            methods = [FedAvg(step / L, 1.0, LOCAL) for step, many in points if many == rounds]
            options: Any = dict(rounds=rounds, every=rounds, observe=SEEN, progress=False)
            models = sweep(methods, problem, shards, **options).models
            found += [Model.of(spec.loss, agreement, model) for model in models]
    return [(np.ravel(one.coef), float(np.ravel(one.intercept)[0])) for one in found]


def own(sites: Sites, here: np.ndarray) -> float:
    """A site's own model on its own rows, each predicted by a model that has not seen it."""
    mine = of_rows(sites, here)
    fold = np.random.default_rng(0).permutation(len(mine.y)) % FOLDS
    total = 0.0
    for k in range(FOLDS):
        coef, intercept = linear(of_rows(mine, fold != k))
        rows = fold == k
        total += losses(sites.loss, mine.X[rows] @ coef + intercept, mine.y[rows]).sum()
    return 1 - total / constant(sites.loss, mine.y).sum()


def score(sites: Sites, rows: np.ndarray, model: tuple[np.ndarray, float]) -> float:
    """The share of the loss explained on these rows."""
    z, y = sites.X[rows] @ model[0] + model[1], sites.y[rows]
    return float(1 - losses(sites.loss, z, y).sum() / constant(sites.loss, y).sum())


def losses(loss: Any, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    with precision(np.float64):
        return np.asarray(jax.vmap(loss.value)(jnp.asarray(z), jnp.asarray(y)))


def constant(loss: Linear, y: np.ndarray) -> np.ndarray:
    """The loss of the best constant score for these rows."""
    at = lambda z: losses(loss, np.full(len(y), z), y)
    best: Any = minimize_scalar(lambda z: at(z).sum())
    return at(best.x)


def draw(frame: Frame) -> dict[str, Figure]:
    names = list(frame["table"].unique())
    figure, axes = plots.panels(len(names), width=3.2, height=3.2)
    for ax, name in zip(axes, names, strict=True):
        table = scores(frame, name)
        for i, way in enumerate(WAYS):
            look = LOOKS.get(way, PLAIN)
            across, colour = i + np.linspace(-0.2, 0.2, len(table)), look["color"]
            points = {"marker": look["marker"], "color": colour, "linestyle": ""}
            ax.plot(across, table[way], **points, markersize=4, alpha=0.6)
            ax.plot([i - 0.3, i + 0.3], [table[way].median()] * 2, color=colour)
        ax.set_xticks(range(len(WAYS)), WAYS, rotation=40, ha="right")
        ax.set_ylim(bottom=max(LOWEST, float(table.min().min()) - 0.05))
        title = f"{name} ({len(table)} sites)"
        plots.label(ax, title, "", "share of the loss explained", log="", legend=False)
    return {"sites": figure}


def scores(frame: Frame, name: str) -> Frame:
    """A row per left-out site, a column per way."""
    part = where(frame, table=name)
    return part.pivot_table(index="site", columns="way", values="score", observed=True)


def gain(name: str):
    """How much more the federated model explains than each other way, paired by site."""

    def measure(frame: Frame) -> Frame:
        table = scores(frame, name)
        if table.empty:
            return pd.DataFrame()
        more = {f"more than {w}": table["federated"] - table[w] for w in WAYS[1:]}
        return pd.DataFrame({"federated": table["federated"]} | more)

    return measure


CLAIMS = ()
FINDINGS = tuple(
    Finding(
        f"A left-out site of {name}",
        "share of the loss explained at the site left out, and by how much it exceeds that of the "
        "other ways",
        gain(name),
    )
    for name in TABLES
)
