"""What a site may be asked besides an algorithm's exchanges; each answer is a summary, never rows.

A task maps (problem, shard, payload) to a dictionary of arrays; payload and answer are what would
cross the network.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.engine.smoothness import curvature_bound
from proxfl.losses import augmented, coef_of, features_of, scores_at
from proxfl.points import Point, Scalar, Tree, dtype
from proxfl.problem import Problem, Shard
from proxfl.storage.checkpoint import named_arrays, rebuild


@jax.jit
def curvature(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The site's local smoothness at x: one number."""
    return {"curvature": curvature_bound(problem, shard, payload["x"], jax.random.key(0))}


@jax.jit
def evaluate(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The site's mean loss at x and its full gradient: one number and one vector."""
    f = problem.objective(shard)
    return {"value": f.value(payload["x"]), "gradient": f.full_grad(payload["x"])}


@jax.jit
def imbalance(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """How far the slopes at x are from a zero mean: two numbers for each output."""
    loss: Any = problem.loss
    return {"imbalance": loss.imbalance(*rows_at(shard, payload["x"]))}


@jax.jit
def conjugate(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The conjugate of the slopes at x, corrected and scaled, and their gradient unscaled."""
    loss, (A, _, *offset), scale = cast(Any, problem.loss), shard.examples, payload["scale"]
    about = rows_at(shard, payload["x"])
    value, u = loss.dual(*about, scale, payload.get("correction"))
    if offset:  # max_z u (z - offset) - loss(z)
        value = value - scale * jnp.vdot(u, offset[0])
    return {"value": value, "gradient": A.T @ u}


@jax.jit
def survival(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """What the loss has a site tell of the model x once it is trained."""
    loss: Any = problem.loss
    return loss.survival(*rows_at(shard, payload["x"]))


# How much of a step else to look along, should the whole of it be too long: one number each.
SHORTER = tuple(4.0**-k for k in range(1, 11))


@jax.jit
def newton(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """What a Newton step from x towards u must know at so much of the way.

    The site's mean loss there, its gradient, the upper triangle of its Hessian on some features;
    and the mean loss at `SHORTER` ways. A number that overflowed is told as 0, and that it did.
    """
    loss: Any = problem.loss
    x, u, length = (payload[name] for name in ("x", "u", "length"))
    weights = shard.row_weights(length.dtype)
    point = part_way(x, u, length)
    shorter = jax.lax.map(
        lambda part: loss.total(part_way(x, u, part), shard.examples, weights),
        length * jnp.asarray(SHORTER, length.dtype),
    )
    curved = loss.hessian(point, shard.examples, weights, payload["features"])
    told = {
        "value": loss.total(point, shard.examples, weights),
        "gradient": loss.gradient(point, shard.examples, weights),
        "hessian": upper(curved),
    }
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(told)]).all()
    told = jax.tree.map(lambda leaf: jnp.where(finite, leaf, 0.0), told)
    most = jnp.finfo(shorter.dtype).max
    return told | {"finite": finite, "shorter": jnp.where(jnp.isfinite(shorter), shorter, most)}


@jax.jit
def hessian(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """The upper triangle of the Hessian at x."""
    loss: Any = problem.loss
    x, features = payload["x"], jnp.arange(features_of(payload["x"]), dtype=jnp.int32)
    weights = shard.row_weights(dtype(x))
    return {"hessian": upper(loss.hessian(x, shard.examples, weights, features))}


@jax.jit
def information(problem: Problem, shard: Shard, payload: dict[str, Any]) -> dict[str, Any]:
    """What standard errors at x are made of.

    The gradient; upper triangles of the Hessian and of the mean product of the rows' scores with
    themselves, a score being a row's gradient; and the mean square of the losses' slopes. Where
    rows count more or less, also the sum of the products with each row's weight squared.
    """
    loss: Any = problem.loss
    x = payload["x"]
    z, y, weights = rows_at(shard, x)
    pull = loss.slopes(z, y, weights)
    squares = jnp.where(weights > 0, pull * pull / jnp.where(weights > 0, weights, 1.0), 0.0)
    features = jnp.arange(features_of(x), dtype=jnp.int32)
    B = augmented(shard.examples[0], features, x)
    products = lambda each: upper((B * each[:, None]).T @ B)
    told = hessian(problem, shard, payload) | {
        "gradient": loss.gradient(x, shard.examples, weights),
        "products": products(squares),
        "squares": jnp.sum(squares),
    }
    if shard.counts is not None:
        told["drawn"] = products(shard.total(pull.dtype) * pull * pull)
    return told


def refuse_odd(name: str, problem: Problem, question: Mapping[str, Any]) -> None:
    """Raise ValueError if a question is none that a driver asks.

    Who asks about many models in one, or gives each row a number of its own, learns in one answer
    what a site would not tell in a thousand.
    """
    x, number = problem.x0, jax.ShapeDtypeStruct((), dtype(problem.x0))
    features = np.asarray(question.get("features", ()))
    like: dict[str, Any] = {"x": x}
    if name == "newton":
        some = jax.ShapeDtypeStruct((features.size,), jnp.int32)
        like |= {"u": x, "length": number, "features": some}
    if name == "conjugate":
        like["scale"] = number
        if isinstance(x, Tree):
            like["correction"] = jax.ShapeDtypeStruct((2, *coef_of(x).shape[1:]), number.dtype)
    rebuild(named_arrays(dict(question)), like, "The question")
    within = features.size == 0 or (features[0] >= 0 and features[-1] < features_of(x))
    if not within or (np.diff(features) <= 0).any():
        raise ValueError("A Hessian is on features of the model, in their order, each once.")
    if not 0 <= float(question.get("scale", 1.0)) <= 1:  # beyond, one row decides what is finite
        raise ValueError("Slopes are scaled down, by 0 to 1.")


def upper(matrix: Any) -> Any:
    """The upper triangle of a square matrix, row by row."""
    shape = matrix.shape
    # One place for each number, not two: XLA would spend seconds on joining large constants.
    return matrix.ravel()[np.ravel_multi_index(np.triu_indices(len(matrix)), shape)]


def part_way(x: Point, u: Point, length: Scalar) -> Point:
    """So much of the way from x to u; u itself, zeros and all, if that is the whole."""
    return jax.tree.map(lambda a, b: jnp.where(length == 1, b, a + length * (b - a)), x, u)


def rows_at(shard: Shard, x: Any) -> tuple[Any, Any, Any]:
    """The scores at x of a site's rows, their labels, and their weights in its mean."""
    z = scores_at(x, shard.examples)
    return z, shard.examples[1], shard.row_weights(z.dtype)


# Those that say of themselves where numbers are not finite, upon which the server steps back.
STEPS_BACK = ("newton",)
TASKS: dict[str, Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]] = {
    "curvature": curvature,
    "evaluate": evaluate,
    "imbalance": imbalance,
    "conjugate": conjugate,
    "survival": survival,
    "newton": newton,
    "hessian": hessian,
    "information": information,
}
