"""Privacy noise at real sites: what is spent is counted on the disk, whoever asks, however often."""

import math
import os
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from proxfl.algorithms.accounting import epsilon
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.training import RunOptions, refuse_masked
from proxfl.deploy.site import audit
from proxfl.deploy.site.noise import FILE
from proxfl.errors import InputError
from proxfl.report import page
from proxfl.train.federation import Call
from proxfl.train.folder import read
from tests.deploy.field import LOOSE, NAMES, Field

NOISE = {"target": "y", "loss": "squared", "eta": 0.02, "rounds": 4}
NOISE |= {"dp_clip": 1.0, "dp_noise": 8.0, "dp_delta": 1e-6}
TOLD = epsilon(8.0, 4, 1e-6)  # of a whole study


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing here is about power loss or pictures."""
    monkeypatch.setattr(page, "inline", lambda figure: "data:,")
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def noisy(folder, masked=False, **options):
    policy = options.pop("policy", LOOSE)
    field = Field(folder, policy=policy, masked=masked, **NOISE | options)
    if masked:
        field.confirm()
    return field


def noised(field, site="north"):
    lines = (audit.parsed(line) for line in audit.lines_of(field.folder / site))
    return [line for line in lines if line["what"] == audit.NOISED]


class Hostile:
    """A server of an unmasked study that asks what it likes."""

    def __init__(self, field):
        self.field, self.step = field, 0
        field.propose()
        training = field.life("hostile")
        self.rounds, self.algorithm = None, None
        ask = training.federation.visit

        def stop(algorithm, call, down, exact=None):
            self.algorithm, self.down = algorithm, down
            raise Stopped

        training.federation.visit = stop
        with pytest.raises(Stopped):
            training.run()
        self.visit = ask

    def about(self, shift, round=0):
        """All sites' mean answer about a model, in the step that is due."""
        self.step += 1
        down = (
            self.down + shift if isinstance(self.down, jnp.ndarray) else shifted(self.down, shift)
        )
        call = Call(self.step, 0, round, 0)
        return flat(self.visit(self.algorithm, call, down).received.mean)


class Stopped(Exception):
    pass


def shifted(point, shift):
    import jax

    return jax.tree.map(lambda a: a + shift, point)


def flat(point):
    import jax

    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(point)])
