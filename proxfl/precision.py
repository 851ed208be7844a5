"""Precision belongs to a run, not to the process: it is that of the starting point."""

import contextlib
from typing import Any

import jax
import numpy as np


def precision(kind: Any) -> contextlib.AbstractContextManager:
    """Lets JAX hold float64 inside the block when `kind` is float64; changes nothing outside."""
    return jax.enable_x64(True) if np.dtype(kind) == np.float64 else contextlib.nullcontext()
