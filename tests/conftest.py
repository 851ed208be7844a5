"""All tests run in float64, under strict promotion and rank rules, with types checked at run time.

The settings are the tests' own: importing proxfl changes none, which `test_imports.py` proves in a
fresh process.
"""

import ctypes
import gc
import os

# Most of a test's time is compilation, of small programs that run for milliseconds: with the
# compiler's effort turned down they compile three times faster and compute the same.
QUICK = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}"

import jax  # noqa: E402
import psutil  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

install_import_hook("proxfl", "beartype.beartype")


PLENTY = 1.2e9  # bytes of memory
trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)  # glibc keeps what is freed


def is_full() -> bool:
    return psutil.Process().memory_info().rss > PLENTY


def pytest_runtest_teardown():
    """Programs are shared between tests until they fill the memory."""
    if is_full():
        trim(0)
    if is_full():
        jax.clear_caches()
        gc.collect()
        trim(0)
