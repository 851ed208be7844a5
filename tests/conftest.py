"""All tests run in float64, under strict promotion and rank rules, with types checked at run time.

The settings are the tests' own: importing proxfl changes none, which `test_imports.py` proves in a
fresh process.
"""

import gc
import os
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

install_import_hook("proxfl", "beartype.beartype")

# A compiled program takes a dozen memory mappings, of which a process may have some 65,000; XLA
# crashes beyond that. The bytes in use tell as much, and are quick to read.
PLENTY = 2 * 2**30


def bytes_in_use() -> int:
    about = Path("/proc/self/statm")
    pages = int(about.read_text().split()[1]) if about.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def forget_programs():
    """Programs are shared between tests until there are too many."""
    yield
    if bytes_in_use() > PLENTY:
        jax.clear_caches()
        gc.collect()
