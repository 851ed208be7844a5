"""Clients over eight devices: the same run as on one, with the states spread like the shards."""

import os
import subprocess
import sys

import pytest

import proxfl as px
from tests import cases

PROGRAM = """
import jax, numpy as np, scipy.sparse
jax.config.update("jax_enable_x64", True)
import proxfl as px
from proxfl.problem import sparse
from tests import cases

assert len(jax.devices()) == 8
sparse.WORTH_A_TRIP = 0
dense = cases.sites(clients=16)
thin = [(scipy.sparse.csr_array(A), y) for A, y in dense]
runs = [
    (px.Decoupled(0.05, 1.5, 4), dense, {}),
    (px.Decoupled(0.05, 1.5, 4), thin, {"weights": "samples"}),
    (px.Accelerated(px.Decoupled(0.05, 1.5, 4), how="nesterov"), dense, {}),
    (px.DecoupledPartial(0.05, 1.5, 4), dense, {"cohort": 5}),
    (px.Mime(0.05, 1.0, 3), dense, {}),
]
for algorithm, sites, more in runs:
    shards = px.shards_of(sites, more.pop("weights", "uniform"))
    problem = cases.problem(batch=3)
    one = px.simulate(algorithm, problem, shards, rounds=12, progress=False, **more)
    many = px.simulate(algorithm, problem, px.spread(shards), rounds=12, progress=False, **more)
    np.testing.assert_allclose(one.model, many.model, atol=1e-12)
    np.testing.assert_allclose(one.history["objective"], many.history["objective"], atol=1e-12)
    for leaf in jax.tree.leaves(px.start(algorithm, problem, px.spread(shards)).clients):
        assert len(leaf.sharding.device_set) == 8 and not leaf.is_fully_replicated
try:
    px.simulate(algorithm, cases.problem(), px.spread(shards), rounds=1, masked=True)
except ValueError as error:
    assert "give it shards that are not spread" in str(error)
    print("agreed")
"""


def test_a_run_over_eight_devices_is_the_run_on_one():
    """In a process of its own, since the number of devices is fixed when JAX starts."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "agreed", done.stderr


def test_clients_that_cannot_be_spread_evenly_are_refused():
    shards = px.shards_of(cases.sites(clients=5))
    with pytest.raises(ValueError, match="5 clients cannot be spread evenly over 2 devices"):
        px.spread(shards, [None, None])
