"""No answer that hangs on few rows.

A gradient is a mean over all rows, but the difference of two weighs them by the second derivative
of the loss between the two models. Where a model saturates the loss on all rows but one, that
difference is the row. So a site measures, at every model at which a gradient is taken, also inside
local steps, how many rows of equal weight would say as much: (sum w)^2 / sum w^2 (Kish's effective
sample size). Below a share of its rows, those of weight 0 among them, there is no number. Products
of rows' gradients weigh them by the squares of their slopes, which may be few where second
derivatives are many: these have a least share of their own.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.losses import Loss, scores_at
from proxfl.points import Point, Scalar
from proxfl.problem import Problem, Shard


class Shares(NamedTuple):
    """Of the rows that count, those behind an answer at least, and behind products of gradients."""

    rows: float = 0.0
    products: float = 0.0


@dataclasses.dataclass(frozen=True)
class Guarded(Loss):
    """A loss of linear models that is not a number where too few rows are behind it."""

    loss: Any
    share: float

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return self.loss.curvature

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.loss.convex

    @property
    def couples_rows(self) -> bool:  # type: ignore[override]
        return self.loss.couples_rows

    @property
    def ignores_padding(self) -> bool:  # type: ignore[override]
        return self.loss.ignores_padding

    def total(self, x, batch, weights):
        enough = share_behind(self.loss, x, batch, weights) >= self.share
        return jnp.where(enough, self.loss.total(x, batch, weights), jnp.nan)

    def gradient(self, x, batch, weights):
        enough = share_behind(self.loss, x, batch, weights) >= self.share
        hide = lambda a: jnp.where(enough, a, jnp.nan)
        return jax.tree.map(hide, self.loss.gradient(x, batch, weights))

    def hessian(self, x, batch, weights, features):
        enough = share_behind(self.loss, x, batch, weights) >= self.share
        return jnp.where(enough, self.loss.hessian(x, batch, weights, features), jnp.nan)


def effective(weights: np.ndarray) -> float:
    """How many rows of equal weight say as much as these."""
    w = weights / max(weights.max(initial=0.0), np.finfo(float).tiny)
    return float(w.sum() ** 2 / max((w**2).sum(), 1.0))


def share_behind(loss: Any, x: Point, batch: Any, weights: Any) -> Scalar:
    """The effective share of the rows that count in differences of gradients near x."""
    return effective_share(loss.influence(scores_at(x, batch), batch[1], weights), weights)


def effective_share(w: Any, weights: Any) -> Scalar:
    counts = weights > 0
    w = jnp.where(counts, w, 0.0)
    w = w / jnp.maximum(w.max(), jnp.finfo(w.dtype).tiny)  # squares of tiny weights would vanish
    return w.sum() ** 2 / jnp.maximum((w**2).sum(), 1.0) / counts.sum(dtype=w.dtype)


@jax.jit
def shares_at(problem: Problem, shard: Shard, x: Point) -> tuple[Scalar, Scalar]:
    """What is behind answers about a model, and behind products of gradients, of a site's rows."""
    loss: Any = problem.loss
    weights = shard.row_weights(shard.weight.dtype)
    pull = loss.slopes(scores_at(x, shard.examples), shard.examples[1], weights)
    squares = pull * pull, pull * pull / jnp.where(weights > 0, weights, 1.0)
    behind = share_behind(loss, x, shard.examples, weights)
    return behind, jnp.minimum(*(effective_share(each, weights) for each in squares))


def is_behind(least: Shares, task: str, problem: Problem, shard: Shard, x: Point) -> bool:
    """Whether enough rows are behind the answer to a task that is about a model."""
    if not least.rows:
        return True
    rows, products = map(float, shares_at(problem, shard, x))
    return rows >= least.rows and (task != "information" or products >= least.products)


def guards(least: Shares) -> tuple[Callable[[Problem], Problem], Callable[..., bool]]:
    """What hides numbers that hang on too few rows, and what says whether a task's would not."""
    if not least.rows:
        return lambda problem: problem, lambda task, problem, shard, x: True
    guarded = lambda problem: dataclasses.replace(problem, loss=Guarded(problem.loss, least.rows))
    return guarded, partial(is_behind, least)
