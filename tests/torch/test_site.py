"""A PyTorch module at real sites: the same run as simulated."""

import numpy as np
import pytest

import proxfl as px
from proxfl.prox import L1, OnLeaves
from tests.deploy.world import SEED, World, deployed

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")

from tests.torch.modules import entropy, network, sites  # noqa: E402


def test_a_module_at_sites_runs_as_simulated(tmp_path):
    module, algorithm = network(), px.Decoupled(0.1, 1.2, 3)
    problem = px.Problem(
        OnLeaves(L1(0.02), ("*.weight",)),
        px.torch.parameters(module),
        px.torch.TorchLoss(module, entropy),
        batch=3,
    )
    world = World(tmp_path, algorithm, problem, sites())
    server, _ = deployed(world, rounds=3)
    wanted = px.simulate(algorithm, problem, world.shards, rounds=3, seed=SEED, observe={})
    found = algorithm.output(problem.g, server)
    for name, value in wanted.model.params.items():
        np.testing.assert_allclose(found.params[name], value, atol=1e-12)


@pytest.mark.parametrize(
    "layer, why", [(torch.nn.Dropout(), "random numbers"), (torch.nn.BatchNorm1d(5), "buffer")]
)
def test_a_site_refuses_a_module_that_is_no_function_of_the_model(tmp_path, layer, why):
    module = network()
    module.insert(1, layer.double())
    loss = px.torch.TorchLoss(module, entropy)
    problem = px.Problem(OnLeaves(L1(0.02)), px.torch.parameters(module), loss)
    with pytest.raises(ValueError, match=why):
        World(tmp_path, px.Decoupled(0.1, 1.0, 2), problem, sites())
