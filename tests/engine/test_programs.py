"""A long command forgets its programs before there are more than a process may hold."""

import jax
import numpy as np
import pytest

from proxfl.engine import compiled as programs


@pytest.mark.parametrize(("plenty", "traces"), [(0, 2), (10**9, 1)])
def test_programs_are_kept_until_there_are_many(monkeypatch, plenty, traces):
    monkeypatch.setattr(programs, "PLENTY", plenty)
    monkeypatch.setattr(programs, "mappings", lambda: 1)
    traced = 0

    @jax.jit
    def double(x):
        nonlocal traced
        traced += 1
        return 2 * x

    for _ in range(2):
        double(np.ones(3))
        programs.forget_if_many()
    assert traced == traces
