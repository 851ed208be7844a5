"""The public side of a problem: what the server and every client know."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from proxfl.core import Objective, Regulariser
from proxfl.losses import Loss, as_loss
from proxfl.points import Point, as_point, dtype
from proxfl.problem.batches import draw
from proxfl.problem.shards import Shard
from proxfl.problem.sparse import is_sparse
from proxfl.pytree import pytree, static


@pytree
class Problem:
    """Minimise the weighted mean over clients of their loss, plus g."""

    g: Regulariser
    x0: Point
    loss: Loss | Callable[[Any, Any], Array] = static()
    batch: int | None = static(default=None)

    def normalised(self) -> "Problem":
        """The same problem as engines want it: a point to start from, held in JAX's arrays."""
        held = Problem(self.g, as_point(self.x0), self.loss, self.batch)
        return jax.tree.map(jnp.asarray, held)

    def objective(self, shard: Shard) -> Objective:
        loss = as_loss(self.loss)
        kind = dtype(self.x0)
        weights = shard.row_weights(kind)

        def value(x):
            return loss.total(x, shard.examples, weights)

        def full_grad(x):
            return loss.gradient(x, shard.examples, weights)

        def grad(x, key):
            if self.batch is None:
                return loss.gradient(x, shard.examples, weights)
            rows = draw(key, shard.size, self.batch, shard.capacity)
            batch = jax.tree.map(lambda a: a[rows], shard.examples, is_leaf=is_sparse)
            return loss.gradient(x, batch, jnp.full(self.batch, 1 / self.batch, kind))

        return Objective(grad, full_grad, value)
