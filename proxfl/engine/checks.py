"""What is wrong with an input, in a sentence, before anything compiles."""

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Algorithm
from proxfl.losses import Linear, Softmax
from proxfl.points import Tree
from proxfl.problem.shards import Problem, Shard


def check(
    algorithm: Algorithm, problem: Problem, shards: Shard, *, rounds: int, cohort: int | None
) -> None:
    """Raises ValueError with the first thing that is wrong."""
    found = (
        bad_counts(algorithm, shards, rounds, cohort)
        or bad_batch(problem, shards)
        or bad_labels(problem, shards)
        or bad_outputs(problem, shards)
        or bad_start(problem, shards)
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
    if problem.batch is None or 1 <= problem.batch <= smallest:
        return None
    return (
        f"batch must be between 1 and the {smallest} rows of the smallest client, "
        f"got {problem.batch}."
    )


def bad_labels(problem: Problem, shards: Shard) -> str | None:
    if not isinstance(problem.loss, Linear):
        return None
    _, y = shards.examples
    return problem.loss.check(np.asarray(y))


def bad_outputs(problem: Problem, shards: Shard) -> str | None:
    """Targets and coefficients of a linear model must agree on the scores of a row."""
    loss, x0 = problem.loss, problem.x0
    if not isinstance(loss, Linear):
        return None
    coef = x0.params.coef if isinstance(x0, Tree) else x0
    y, name = np.asarray(shards.examples[1]), type(loss).__name__
    if isinstance(loss, Softmax):
        if y.ndim != 2 or coef.ndim != 2:
            return (
                f"{name} needs one label per row and coefficients with one column per class, got "
                f"labels of shape {y.shape[2:]} per row and coefficients of shape {coef.shape}."
            )
        classes = coef.shape[1]
        if y.max() < classes:
            return None
        return (
            f"{name} labels must be below {classes}, the columns of the coefficients, got "
            f"{y.max()}; number the classes from 0, or give x0 more columns."
        )
    if y.shape[2:] == coef.shape[1:]:
        return None
    return (
        f"{name} needs as many targets per row as the coefficients have columns, got targets of "
        f"shape {y.shape[2:]} per row and coefficients of shape {coef.shape}; make them agree."
    )


def bad_start(problem: Problem, shards: Shard) -> str | None:
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(problem.x0)):
        return "x0 holds values that are not finite; start from finite numbers."
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), shards)
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


def bad_prox_step(algorithm: Algorithm, problem: Problem) -> str | None:
    longest, limit = np.max(algorithm.longest_prox), float(problem.g.step_limit)
    if not np.isfinite(limit) or longest < limit:
        return None
    remedy = "lower its steps" if np.isfinite(longest) else "choose a method of fixed steps"
    return (
        f"{type(problem.g).__name__} is only weakly convex: prox steps must stay below "
        f"{limit:.3g}, and {type(algorithm).__name__} uses up to {longest:.3g}; {remedy}."
    )
