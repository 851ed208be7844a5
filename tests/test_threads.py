"""Tests share cores: linear algebra runs on one thread in each of their processes."""

import ctypes

import pytest
from numpy.linalg import _umath_linalg
from scipy.linalg import _fblas


@pytest.mark.parametrize(
    ("linked", "threads"),
    [
        (_umath_linalg, "scipy_openblas_get_num_threads64_"),
        (_fblas, "scipy_openblas_get_num_threads"),
    ],
    ids=["numpy", "scipy"],
)
def test_linear_algebra_runs_on_one_thread(linked, threads):
    library = ctypes.CDLL(linked.__file__)
    if not hasattr(library, threads):
        pytest.skip("linked with another library than OpenBLAS")
    assert getattr(library, threads)() == 1
