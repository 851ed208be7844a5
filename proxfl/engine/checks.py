"""What is wrong with an input, in a sentence, before anything compiles."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from proxfl.core import Algorithm
from proxfl.engine import messages
from proxfl.losses import as_loss
from proxfl.problem import Problem, Shard
from proxfl.problem.sparse import is_sparse


def check(
    algorithm: Algorithm, problem: Problem, shards: Shard, *, rounds: int, cohort: int | None
) -> None:
    """Raises ValueError with the first thing that is wrong."""
    found = (
        bad_counts(algorithm, shards, rounds, cohort)
        or bad_batch(problem, shards)
        or as_loss(problem.loss).complaint(problem.x0, shards.examples)
        or bad_start(problem, shards)
        or bad_padding(problem, shards)
        or bad_prox_step(algorithm, problem)
    )
    if found is not None:
        raise ValueError(found)


def bad_counts(algorithm: Algorithm, shards: Shard, rounds: int, cohort: int | None) -> str | None:
    clients = shards.size.shape[0]
    if rounds < 1:
        return f"rounds must be at least 1, got {rounds}."
    if cohort is None:
        return None
    if not 1 <= cohort <= clients:
        return f"cohort must be between 1 and the {clients} clients, got {cohort}."
    if algorithm.needs_everyone:
        name = type(algorithm).__name__
        return (
            f"{name} needs every client in every round, got cohort={cohort}; drop it, or use "
            "DecoupledPartial, which has the same fixed point."
        )
    return None


def bad_batch(problem: Problem, shards: Shard) -> str | None:
    smallest = int(shards.size.min())
    if problem.batch is not None and as_loss(problem.loss).couples_rows:
        return f"A loss of a site needs all of its rows, got batch={problem.batch}; leave it out."
    if problem.batch is None or 1 <= problem.batch <= smallest:
        return None
    return (
        f"batch must be between 1 and the {smallest} rows of the smallest client, "
        f"got {problem.batch}."
    )


def bad_start(problem: Problem, shards: Shard) -> str | None:
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(problem.x0)):
        return "x0 holds values that are not finite; start from finite numbers."
    one = messages.one_of(shards)
    shape = jax.tree.map(lambda a: (a.shape, a.dtype), jax.eval_shape(lambda x: x, problem.x0))

    def gradient(x, shard):
        return problem.objective(shard).full_grad(x)

    for what, trace in (
        ("The loss", lambda: jax.eval_shape(gradient, problem.x0, one)),
        ("The prox of g", lambda: jax.eval_shape(problem.g.prox, problem.x0, 1.0)),
    ):
        try:
            found = jax.tree.map(lambda a: (a.shape, a.dtype), trace())
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            reason = str(error).splitlines()[0]  # the loss may be the user's own code
            return f"{what} does not fit x0 of shape and type {shape}: {reason}"
        if found != shape:
            return f"{what} does not fit x0: it gives {found} where x0 has {shape}."
    return None


def bad_padding(problem: Problem, shards: Shard) -> str | None:
    """Sites of unequal size are padded, and a loss that reads the padding is that of other data."""
    unpadded = int(shards.size.min()) == messages.one_of(shards).capacity
    if as_loss(problem.loss).ignores_padding or unpadded:
        return None
    smallest = jax.tree.map(lambda a: a[jnp.argmin(shards.size)], shards)
    values = np.asarray(padded_in_other_ways(problem, smallest))
    rounding = np.sqrt(np.finfo(values.dtype).eps)
    if not np.isfinite(values[0]) or np.allclose(values, values[0], rtol=rounding, atol=0):
        return None
    few = ", ".join(f"{value:.6g}" for value in values)
    return (
        f"The loss of a site must not depend on its padding, got {few} with padding of three "
        "kinds: rows seem to be compared with one another; make it a loss of the site, "
        "px.SiteLoss, which is told by weights which rows are real."
    )


@jax.jit
def padded_in_other_ways(problem: Problem, shard: Shard) -> Array:
    """The loss near x0 as the shard is padded, with another of its rows, and with more rows."""
    flat, unravel = jax.flatten_util.ravel_pytree(problem.x0)
    x = unravel(flat + 0.01 * jax.random.normal(jax.random.key(0), flat.shape, flat.dtype))
    rows = jnp.arange(shard.capacity, dtype=shard.size.dtype)
    last = jnp.where(rows < shard.size, rows, shard.size - 1)
    longer = jnp.append(last, jnp.zeros(shard.capacity, rows.dtype))

    def value(rows):
        take = lambda a: a[rows]
        padded = jax.tree.map(take, shard.examples, is_leaf=is_sparse)
        return problem.objective(shard._replace(examples=padded)).value(x)

    return jnp.stack([problem.objective(shard).value(x), value(last), value(longer)])


def bad_prox_step(algorithm: Algorithm, problem: Problem) -> str | None:
    longest, limit = np.max(algorithm.longest_prox), float(problem.g.step_limit)
    if not np.isfinite(limit) or longest < limit:
        return None
    remedy = "lower its steps" if np.isfinite(longest) else "choose a method of fixed steps"
    return (
        f"{type(problem.g).__name__} is only weakly convex: prox steps must stay below "
        f"{limit:.3g}, and {type(algorithm).__name__} uses up to {longest:.3g}; {remedy}."
    )
