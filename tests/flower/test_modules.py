"""An app of PyTorch modules, under every kind of penalty, runs what a simulation runs."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import proxfl as px
from proxfl.prox import L1, GroupL2, Nuclear, OnLeaves, SumOverLeaves
from tests.deploy.grid import inside_flower
from tests.flower.nodes import Nodes

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")
from tests.torch import modules  # noqa: E402  (needs PyTorch)

UNITS = np.broadcast_to(np.arange(5)[:, None], (5, modules.INPUTS))
PENALTIES = {
    "l1": OnLeaves(L1(0.05), ("*.weight",)),
    "group": SumOverLeaves.of({"0.weight": GroupL2(UNITS, np.ones(5, np.float32), 0.3)}),
    "nuclear": SumOverLeaves.of({"0.weight": Nuclear(0.1), "2.weight": Nuclear(0.05)}),
}


def app_of(client, sites):
    app = ClientApp()

    @app.train()
    def train(message, context):
        return client.train(message, context, sites[context.node_config["partition-id"]])

    return app


@pytest.mark.parametrize("name", PENALTIES)
def test_an_app_of_modules_is_the_simulation(name):
    module = modules.network(torch.float32)
    sites = [(a[:5], y[:5]) for a, y in modules.sites(3, kind=np.float32)]  # share a program
    x0 = px.torch.parameters(module)
    problem = px.Problem(PENALTIES[name], x0, px.torch.TorchLoss(module, modules.entropy), 4)
    algorithm, rounds, seed = px.Decoupled(0.1, 1.0, 3), 8, 2
    with inside_flower():
        nodes = Nodes(app_of(px.flower.Client(algorithm, problem), sites))
        fedavg = FedAvg(fraction_evaluate=0.0, min_available_nodes=3)
        strategy = px.flower.Strategy(algorithm, problem, fedavg, seed=seed)
        initial = ArrayRecord({name: Array(value) for name, value in x0.params.items()})
        found = strategy.start(nodes, initial, num_rounds=rounds).arrays
    about = dict(rounds=rounds, seed=seed, observe={}, progress=False)
    wanted = px.simulate(algorithm, problem, sites, **about).arrays()
    for leaf, value in wanted.items():
        np.testing.assert_allclose(found[leaf].numpy(), value, atol=1e-6, rtol=0)
    weight = found["0.weight"].numpy()
    if name == "l1":
        assert (weight == 0).any()
    if name == "group":
        assert (~weight.any(axis=1)).any()
    if name == "nuclear":
        assert np.linalg.matrix_rank(weight, tol=1e-5) < 5
