"""What server and clients of an app both know: trees as records, shapes, the agreement."""

import hashlib
import re
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord

from proxfl.core import Algorithm, Objective
from proxfl.engine.messages import Exchange
from proxfl.points import Point, as_point, dtype, leaf_names
from proxfl.precision import precision
from proxfl.problem import Problem
from proxfl.storage.checkpoint import named_arrays, rebuild

# Keys of records; the first three are those of Flower's own strategies.
ARRAYS, METRICS, EXAMPLES = "arrays", "metrics", "num-examples"
ABOUT, START = "proxfl", "proxfl-start"


class Agreed:
    """A method and a problem as both sides have them, and the shapes that follow."""

    def __init__(self, algorithm: Algorithm, problem: Problem):
        if algorithm.client_noise:
            raise ValueError(
                f"{type(algorithm).__name__} adds noise at the clients, which in a plain app the "
                "server could draw as well; use `proxfl federate`, whose sites keep it secret."
            )
        self.algorithm = algorithm
        with precision(dtype(as_point(problem.x0))):
            self.problem = problem.normalised()
            self.shapes = shapes(algorithm, self.problem)
        self.digest = digest((algorithm, problem.g), self.problem)

    @property
    def kind(self) -> np.dtype:
        """The floating type of the run."""
        return dtype(self.problem.x0)

    def precision(self) -> AbstractContextManager:
        return precision(self.kind)


def shapes(algorithm: Algorithm, problem: Problem) -> tuple[Exchange, ...]:
    """The messages of a round, traced with an objective that only has the shapes of one."""
    f = Objective(lambda x, key: x, lambda x: x, lambda x: jnp.zeros((), dtype(x)))
    server, state = jax.eval_shape(algorithm.init, problem.g, problem.x0)
    found = []
    for exchange in algorithm.exchanges():
        down = jax.eval_shape(exchange.broadcast, problem.g, server)
        ask = lambda *about, exchange=exchange: exchange.client(f, problem.g, *about)
        reply = jax.eval_shape(ask, state, down, jax.random.key(0))
        found.append(Exchange(down, reply.up, dict(reply.info)))
    return tuple(found)


def digest(numbers: Any, problem: Problem) -> str:
    """Equal if method, penalty, their numbers, the batch and the model's shapes are."""
    structure = re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(numbers)))
    model = [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(problem.x0)]
    told = hashlib.sha256(repr((structure, model, problem.batch)).encode())
    for leaf in jax.tree.leaves(numbers):
        told.update(np.asarray(leaf, np.float64).tobytes())
    return told.hexdigest()


def record_of(tree: Any) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in named_arrays(tree).items()})


def tree_of(record: Any, like: Any, what: str) -> Any:
    return rebuild({name: array.numpy() for name, array in record.items()}, like, what)


def model_into(arrays: ArrayRecord, model: Point) -> ArrayRecord:
    """The arrays of an app, those replaced that are of the model."""
    leaves = zip(leaf_names(model), jax.tree.leaves(model), strict=True)
    return ArrayRecord(dict(arrays) | {name: Array(np.asarray(a)) for name, a in leaves})


def model_of(arrays: ArrayRecord, like: Point) -> Point:
    """The model among the arrays of an app, which may hold more, such as buffers."""
    names, structure = leaf_names(like), jax.tree.structure(like)
    if lacking := [name for name in names if name not in arrays]:
        raise ValueError(
            f"The initial arrays have no {lacking[0]!r}; give those of the model, such as "
            "ArrayRecord(module.state_dict())."
        )
    leaves = [np.asarray(arrays[name].numpy()) for name in names]
    for name, found, wanted in zip(names, leaves, jax.tree.leaves(like), strict=True):
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise ValueError(
                f"The initial array {name!r} is {found.dtype}{list(found.shape)} where the problem "
                f"has {wanted.dtype}{list(wanted.shape)}; make both from the same model."
            )
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
