"""All tests run in float64, under strict promotion and rank rules, with types checked at run time.

The settings are the tests' own: importing proxfl changes none, which `test_imports.py` proves in a
fresh process.
"""

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

install_import_hook("proxfl", "beartype.beartype")


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Programs are shared between modules until there are too many."""
    from proxfl.engine.compiled import forget_if_many

    yield
    forget_if_many()
