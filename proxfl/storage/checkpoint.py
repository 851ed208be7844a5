"""Save any pytree of arrays as one .npz file, a leaf per path, and load it back bit for bit.

Nothing is pickled. Loading needs an example of the same structure, such as `start(...)`, and
refuses a file whose leaves differ from it in name, shape or type. What is no array, such as a log,
goes with it as JSON and can be read alone.
"""

import json
import os
import zipfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.precision import precision
from proxfl.storage.files import whole

ABOUT = "about.json"  # no leaf has such a path


def is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def named_leaves(tree: Any) -> dict[str, Any]:
    """Leaves by path, as arrays; random keys as the numbers inside them."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path) or "value": jax.random.key_data(leaf) if is_key(leaf) else leaf
        for path, leaf in flat
    }


def save(path: str | os.PathLike, tree: Any, about: Any = None) -> None:
    """Write `tree`, and JSON `about` it, to one file, atomically."""
    arrays: dict[str, Any] = {name: np.asarray(leaf) for name, leaf in named_leaves(tree).items()}
    arrays[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with whole(path) as file:
        np.savez(file, **arrays)


def load_about(path: str | os.PathLike) -> Any:
    """The JSON that was saved with a tree; ValueError if there is none."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return json.loads(stored[ABOUT].tobytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path}: this is no checkpoint of a run; train anew.") from None


def load(path: str | os.PathLike, like: Any) -> Any:
    """Read what `save` wrote into the structure of `like`."""
    expected = named_leaves(like)
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != ABOUT}
    if arrays.keys() != expected.keys():
        odd = sorted(arrays.keys() ^ expected.keys())
        raise ValueError(f"{path} holds other leaves than expected: {', '.join(odd)} differ.")
    for name, leaf in expected.items():
        found = arrays[name]
        if found.shape != np.shape(leaf) or found.dtype != leaf.dtype:
            raise ValueError(
                f"{path} holds {name} as {found.dtype}{found.shape}, "
                f"expected {leaf.dtype}{np.shape(leaf)}."
            )

    def restore(leaf, array):
        with precision(array.dtype):
            value = jnp.asarray(array)
        return jax.random.wrap_key_data(value) if is_key(leaf) else value

    leaves, structure = jax.tree.flatten(like)
    restored = [restore(leaf, arrays[name]) for leaf, name in zip(leaves, expected, strict=True)]
    return jax.tree.unflatten(structure, restored)
