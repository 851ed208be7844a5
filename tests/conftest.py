"""All tests run in float64, under strict promotion and rank rules, with types checked at run time.

The settings are the tests' own: importing proxfl changes none, which `test_imports.py` proves in a
fresh process.
"""

from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

install_import_hook("proxfl", "beartype.beartype")

# Every compiled program takes a few memory mappings. A process may have some 65,000 of them, and
# XLA crashes beyond that.
PLENTY = 20_000


def mappings() -> int:
    about = Path("/proc/self/maps")
    return about.read_bytes().count(b"\n") if about.exists() else 0


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Programs are shared between modules until there are too many."""
    yield
    if mappings() > PLENTY:
        jax.clear_caches()
