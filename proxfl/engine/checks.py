"""What is wrong with an input, in a sentence, before anything compiles."""

from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from proxfl.core import Algorithm
from proxfl.engine import messages
from proxfl.engine.devices import own_part
from proxfl.errors import first_line
from proxfl.losses import as_loss
from proxfl.points import dtype
from proxfl.problem import Problem, Shard
from proxfl.problem.sparse import is_sparse


def check(
    algorithm: Algorithm, problem: Problem, shards: Shard, *, rounds: int, cohort: int | None
) -> None:
    """Raises ValueError with the first thing that is wrong."""
    own = own_part(shards)  # of clients in other processes nothing can be read
    found = (
        bad_counts(algorithm, shards, rounds, cohort)
        or bad_batch(problem, own)
        or as_loss(problem.loss).complaint(problem.x0, own.examples)
        or bad_start(problem, own)
        or bad_padding(problem, own)
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
            reason = first_line(error)  # the loss may be the user's own code
            return f"{what} does not fit x0 of shape and type {shape}: {reason}"
        if found != shape:
            return f"{what} does not fit x0: it gives {found} where x0 has {shape}."
    return None


def bad_padding(problem: Problem, shards: Shard) -> str | None:
    """Sites of unequal size are padded, and a loss that reads the padding is that of other data."""
    sizes, loss = np.asarray(shards.size), as_loss(problem.loss)
    padded = np.flatnonzero(sizes < messages.one_of(shards).capacity)
    if loss.ignores_padding or not padded.size:
        return None
    # Of the padded sites the largest: a site of one row is the same, whatever it is compared with.
    shard = jax.tree.map(lambda a: a[padded[sizes[padded].argmax()]], shards)
    real = lambda a: a[: int(shard.size)]
    alone = shard._replace(examples=jax.tree.map(real, shard.examples, is_leaf=is_sparse))
    found, wanted = (np.asarray(near_start(problem, part)) for part in (shard, alone))
    size = np.asarray(sizes_near_start(problem, shard)) if not loss.couples_rows else np.abs(wanted)
    sound = np.isfinite(found).all(axis=1) & np.isfinite(wanted).all(axis=1)
    apart = np.abs(found - wanted).max(axis=1)
    rounding = np.finfo(found.dtype).eps ** 0.6  # of sums over rows, in another order
    if (apart[sound] <= rounding * size.max(axis=1)[sound]).all():
        return None
    return (
        "The loss of a site must not depend on the rows that pad it, and its value or gradient "
        f"changes by up to {apart[sound].max():.2g} with them: rows seem to be compared with one "
        "another; make it a loss of the site, px.SiteLoss, which is told by weights which rows are "
        "real."
    )


def points_near(problem: Problem) -> Any:
    """Points a little and a good deal away from the start, where a coupling may not show."""
    flat, unravel = jax.flatten_util.ravel_pytree(problem.x0)
    drawn = jax.random.normal(jax.random.key(0), flat.shape, flat.dtype)
    return [unravel(flat + away * drawn) for away in (0.01, 1.0)]


@jax.jit
def near_start(problem: Problem, shard: Shard) -> Float[Array, "points numbers"]:
    """Value and gradient of a site's loss at points near the start."""
    f = problem.objective(shard)
    numbers = lambda x: jax.flatten_util.ravel_pytree((f.value(x), f.full_grad(x)))[0]
    return jnp.stack([numbers(x) for x in points_near(problem)])


@jax.jit
def sizes_near_start(problem: Problem, shard: Shard) -> Float[Array, "points numbers"]:
    """The same with signs drawn for the rows, so that they cannot cancel: the size of the sums."""
    loss, weights = as_loss(problem.loss), shard.row_weights(dtype(problem.x0))
    signed = weights * jax.random.rademacher(jax.random.key(1), weights.shape, weights.dtype)
    about = (shard.examples, signed)
    numbers = lambda x: jax.flatten_util.ravel_pytree(
        (loss.total(x, *about), loss.gradient(x, *about))
    )[0]
    return jnp.abs(jnp.stack([numbers(x) for x in points_near(problem)]))


def bad_prox_step(algorithm: Algorithm, problem: Problem) -> str | None:
    longest, limit = np.max(algorithm.longest_prox), float(problem.g.step_limit)
    if not np.isfinite(limit) or longest < limit:
        return None
    remedy = "lower its steps" if np.isfinite(longest) else "choose a method of fixed steps"
    return (
        f"{type(problem.g).__name__} is only weakly convex: prox steps must stay below "
        f"{limit:.3g}, and {type(algorithm).__name__} uses up to {longest:.3g}; {remedy}."
    )
