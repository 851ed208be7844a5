"""No answer that hangs on few rows.

A gradient is a mean over all rows, but the difference of two weighs them by the second derivative
of the loss between the two models. Where a model saturates the loss on all rows but one, that
difference is the row. So a site measures, at every model at which a gradient is taken, also inside
local steps, how many rows of equal weight would say as much: (sum w)^2 / sum w^2 (Kish's effective
sample size). Below a share of its rows, those of weight 0 among them, there is no number.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.losses import Loss, scores_at
from proxfl.points import Point, Scalar
from proxfl.problem import Problem, Shard


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
    counts = weights > 0
    w = jnp.where(counts, loss.influence(scores_at(x, batch), batch[1], weights), 0.0)
    w = w / jnp.maximum(w.max(), jnp.finfo(w.dtype).tiny)  # squares of tiny weights would vanish
    return w.sum() ** 2 / jnp.maximum((w**2).sum(), 1.0) / counts.sum(dtype=w.dtype)


@jax.jit
def share_at(problem: Problem, shard: Shard, x: Point) -> Scalar:
    """The same at a model, for a site's own rows."""
    return share_behind(problem.loss, x, shard.examples, shard.row_weights(shard.weight.dtype))


def guards(share: float) -> tuple[Callable[[Problem], Problem], Callable[..., bool]]:
    """What hides numbers that hang on too few rows, and what says whether a model's would."""
    if not share:
        return lambda problem: problem, lambda problem, shard, x: True
    guarded = lambda problem: dataclasses.replace(problem, loss=Guarded(problem.loss, share))
    return guarded, lambda problem, shard, x: float(share_at(problem, shard, x)) >= share
