"""All tests run in float64, under strict promotion and rank rules, with types checked at run time.

The settings are the tests' own: importing proxfl changes none, which `test_imports.py` proves in a
fresh process.
"""

import ctypes
import gc
import os
from importlib.metadata import version

# Most of a test's time is compilation, of small programs that run for milliseconds: with the
# compiler's effort turned down they compile three times faster and compute the same.
QUICK = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1"
)
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):  # which ends at flags it lacks
    QUICK += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}"

# Where processes outnumber cores, OpenBLAS's threads spin while they wait for one another: a small
# eigenvalue problem then takes a hundred milliseconds in place of one. It reads this as NumPy is
# imported: so `pyproject.toml` leaves out jaxtyping's plugin for pytest, which does that first.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import jax  # noqa: E402
import psutil  # noqa: E402

from tests.typed import check_types_of  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

if "PROXFL_SOAK" not in os.environ:  # it takes longer than most runs of the long tests do
    check_types_of("proxfl")

# Nothing loses power here: what a write is worth then is tested on a disk that forgets what was not
# synchronised (`storage/faulty.py`), and the real one is slow.
os.fsync = lambda handle: None

PLENTY = 1.9e9  # bytes of memory; imports alone take half of that
trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)  # glibc keeps what is freed


def pytest_collection_finish():
    """What is there by now stays, and need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 50)


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
