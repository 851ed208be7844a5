"""Pytrees as named arrays and back, checked against the shape both sides traced."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.storage.checkpoint import is_key, named_leaves
from proxfl.deploy.protocol.wire import BadMessage, Value


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Leaves by path; Python numbers as float64, random keys as the numbers inside them."""
    return {name: np.asarray(leaf) for name, leaf in named_leaves(tree).items()}


def abstract(tree: Any) -> Any:
    """The shapes and types of a tree, with random keys as the numbers inside them."""
    return jax.tree.map(shape_of, tree)


def shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    if is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    kind = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return jax.ShapeDtypeStruct(np.shape(leaf), kind)


def check(found: Mapping[str, Value], expected: Mapping[str, Any], what: str) -> None:
    """Raise BadMessage unless the arrays found have just the names, shapes and types expected."""
    if found.keys() != expected.keys():
        odd = ", ".join(sorted(map(repr, found.keys() ^ expected.keys())))
        raise BadMessage(f"{what} holds other arrays than expected: {odd} differ.")
    for name, shape in expected.items():
        value = found[name]
        if isinstance(value, str):
            raise BadMessage(f"{what} has text for {name!r} where {shape.dtype} is expected.")
        if value.dtype != shape.dtype or value.shape != shape.shape:
            raise BadMessage(
                f"{what} has {name!r} as {value.dtype}{list(value.shape)}, "
                f"expected {shape.dtype}{list(shape.shape)}."
            )


def rebuild(found: Mapping[str, Value], like: Any, what: str) -> Any:
    """The tree `like`, real or abstract, with the leaves that were found; Python floats stay so."""
    leaves, structure = jax.tree.flatten(like)
    expected = named_leaves(abstract(like))
    check(found, expected, what)

    values = [restored(leaf, found[name]) for leaf, name in zip(leaves, expected, strict=True)]
    return jax.tree.unflatten(structure, values)


def restored(leaf: Any, value: Any) -> Any:
    if isinstance(leaf, float):
        return float(value)
    array = jnp.asarray(value)
    return jax.random.wrap_key_data(array) if is_key(leaf) else array


def finite(arrays: Mapping[str, np.ndarray]) -> bool:
    return all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")


def points_to_wire(values: Mapping[str, Any]) -> dict[str, Value]:
    """Numbers, text, arrays and points by name; a point that is a tree becomes several arrays."""
    sent: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, str):
            sent[name] = value
        else:
            sent |= {n: np.asarray(leaf) for n, leaf in named_points({name: value}).items()}
    return sent


def named_points(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves by the name of their value and their path in it."""
    return {
        name + jax.tree_util.keystr(path): leaf
        for name, value in values.items()
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]
    }


def points_from_wire(values: Mapping[str, Value], point: Any) -> dict[str, Any]:
    """The reverse: arrays whose names end like the leaves of `point` become such a tree again."""
    paths, structure = jax.tree_util.tree_flatten_with_path(point)
    ends = [jax.tree_util.keystr(path) for path, _ in paths]
    left = {n: v if isinstance(v, str) else jnp.asarray(v) for n, v in values.items()}
    found: dict[str, Any] = {}
    if ends != [""]:
        for name in [name for name in values if name.endswith(ends[0])]:
            base = name.removesuffix(ends[0])
            if all(base + end in left for end in ends):
                found[base] = jax.tree.unflatten(structure, [left.pop(base + end) for end in ends])
    return found | left
