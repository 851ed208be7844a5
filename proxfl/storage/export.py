"""A model as named NumPy arrays, and as one safetensors file that any framework reads."""

import os

import jax
import numpy as np
import safetensors.numpy

from proxfl.points import Point, leaf_names
from proxfl.storage.files import write_bytes


def arrays(model: Point) -> dict[str, np.ndarray]:
    """Every leaf by its path, such as "first/kernel"; an array by itself is "value"."""
    pairs = zip(leaf_names(model), jax.tree.leaves(model), strict=True)
    return {name or "value": np.asarray(leaf) for name, leaf in pairs}


def save_safetensors(path: str | os.PathLike, model: Point) -> None:
    """Write the arrays of a model to one file, whole or not at all; zeros stay exactly zero."""
    held = {name: np.ascontiguousarray(array) for name, array in arrays(model).items()}
    write_bytes(path, safetensors.numpy.save(held))
