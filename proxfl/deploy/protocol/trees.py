"""Pytrees as named arrays and back, checked against the shape both sides traced."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.storage.checkpoint import is_key, named_leaves


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


def pack(values: Mapping[str, Any]) -> tuple[dict[str, Value], list[str]]:
    """Text, arrays and points by name, a point that is a tree as several arrays; and which are."""
    packed: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, str):
            packed[name] = value
        else:
            packed |= {n: np.asarray(leaf) for n, leaf in leaves_under(name, value).items()}
    return packed, [name for name in values if name not in packed]


def unpack(packed: Mapping[str, Value], points: list[str], point: Any) -> dict[str, Any]:
    """The reverse, where trees are like `point`."""
    left, values = dict(packed), {}
    for name in points:
        expected = leaves_under(name, point)
        found = {n: left.pop(n) for n in expected if n in left}
        check(found, {n: shape_of(leaf) for n, leaf in expected.items()}, f"The point {name!r}")
        values[name] = jax.tree.unflatten(
            jax.tree.structure(point), [jnp.asarray(found[n]) for n in expected]
        )
    return values | {n: v if isinstance(v, str) else jnp.asarray(v) for n, v in left.items()}


def leaves_under(name: str, tree: Any) -> dict[str, Any]:
    """Leaves by the name of the whole and their path in it."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {name + jax.tree_util.keystr(path): leaf for path, leaf in flat}
