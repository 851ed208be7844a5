"""Pytrees in messages: leaves by name, checked against the shape both sides traced."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import all_leaves

from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.storage import checkpoint
from proxfl.storage.checkpoint import named_arrays

rebuild = partial(checkpoint.rebuild, error=BadMessage)


def finite(arrays: Mapping[str, np.ndarray]) -> bool:
    return all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")


def largest(arrays: Iterable[Any]) -> float:
    """The largest of all their numbers in size; 0 if there is none."""
    return max((float(np.abs(a).max(initial=0.0)) for a in arrays), default=0.0)


def pack(values: Mapping[str, Any]) -> tuple[dict[str, Value], list[str]]:
    """Text, arrays and points by name, a point that is a tree as several arrays; and which are."""
    trees = {name: value for name, value in values.items() if not all_leaves([value])}
    single = {name: value for name, value in values.items() if name not in trees}
    packed = {n: v if isinstance(v, str) else np.asarray(v) for n, v in single.items()}
    for name, tree in trees.items():
        packed |= {name + path: leaf for path, leaf in named_arrays(tree).items()}
    return packed, list(trees)


def unpack(packed: Mapping[str, Value], points: list[str], point: Any) -> dict[str, Any]:
    """The reverse, where trees are like `point`."""
    left, values = dict(packed), {}
    for name in points:
        found = {path: left.pop(name + path) for path in named_arrays(point) if name + path in left}
        values[name] = rebuild(found, point, f"The point {name!r}")
    return values | {n: v if isinstance(v, str) else jnp.asarray(v) for n, v in left.items()}
