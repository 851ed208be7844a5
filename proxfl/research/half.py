"""Float16 for large arrays inside a network in float32, on a GPU.

Its ten bits are what a GPU keeps of a float32 that it multiplies, unless it is asked for more, at
half of the memory. Its range is smaller, so slopes are `RAISED` times themselves on their way back:
what is below 6e-11 of a slope is lost, and what is above 64 overflows.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

RAISED = 2.0**10


def in_half(f: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """f in float16, for arrays in float32 and where JAX need not be exact; elsewhere f itself."""

    def computed(*args: Any) -> jax.Array:
        precision = jax.config.jax_default_matmul_precision  # pyright: ignore -- made at run time
        exact = precision not in (None, "default")
        if exact or any(a.dtype != jnp.float32 for a in jax.tree.leaves(args)):
            return f(*args)
        return restored(f(*jax.tree.map(halved, args)))

    return computed


@jax.custom_jvp
def halved(x: jax.Array) -> jax.Array:
    """In float16; slopes that come back through it were raised, and are so no more."""
    return x.astype(jnp.float16)


@jax.custom_jvp
def restored(x: jax.Array) -> jax.Array:
    """In float32 again; slopes are raised on their way back."""
    return x.astype(jnp.float32)


@halved.defjvp
def halved_jvp(primals: Any, tangents: Any) -> Any:
    return halved(*primals), (tangents[0] / RAISED).astype(jnp.float16)


@restored.defjvp
def restored_jvp(primals: Any, tangents: Any) -> Any:
    return restored(*primals), tangents[0].astype(jnp.float32) * RAISED
