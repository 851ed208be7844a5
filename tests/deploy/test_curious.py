"""An honest server computes with what it hears: rows of 0 and 1 are told, as SECURITY.md says."""

import os

import jax
import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.site.policy import Policy
from tests.deploy.curious import counted, numbers, overheard, said, summed
from tests.deploy.field import Field

KINDS = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(float)  # the last column is the label


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What three sites of 60 rows told in an honest run; their features are 0 or 1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        field = Field(tmp_path_factory.mktemp("run") / "field", policy=Policy(unmasked=True))
        field.ask(target="y", loss="logistic", l2=0.1, precondition=False, standardise=False)
        rng = np.random.default_rng(0)
        for file in field.files:
            A = (rng.uniform(size=(60, 3)) < (0.15, 0.3, 0.5)).astype(int)
            y = (A.sum(axis=1) + rng.logistic(size=60) > 1).astype(int)
            pd.DataFrame(A, columns=["a", "b", "c"]).assign(y=y).to_csv(file, index=False)
        return overheard(field)


def test_an_answer_is_the_mean_of_what_single_rows_would_answer(run):
    for known in (run["north"], summed(list(run.values()))):
        told, adds = said(known)
        rows = np.column_stack([known.A, known.y > 0]).astype(float)
        for one, each in zip(told, jax.jit(jax.vmap(adds))(rows), strict=True):
            np.testing.assert_allclose(np.mean(each, axis=0), one, rtol=1e-9, atol=1e-12)
        assert sum(map(len, told)) == sum(len(numbers(one.answer)) for one in known.heard) > 50


def test_rows_of_few_columns_of_0_and_1_are_all_told(run):
    known = run["north"]
    kind = (known.A @ (1, 2, 4)).astype(int)
    told = counted(known, KINDS).reshape(2, -1).sum(axis=0)
    np.testing.assert_array_equal(np.rint(told), np.bincount(kind, minlength=8))
