"""A plain Flower app runs what a simulation runs, through Flower's own apps and messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import proxfl as px
from proxfl.engine.round import ask_clients, one_round
from proxfl.engine.visit import round_key
from proxfl.prox import L1, OnLeaves
from tests import cases
from tests.deploy.grid import inside_flower
from tests.flower.nodes import Nodes

SEED, ROUNDS, CLIENTS = 3, 3, 3
SITES = cases.sites(CLIENTS, rows=(8, 8, 9))  # clients of equal size share a program


def logistic(params, batch):
    rows, labels = batch
    scores = rows[:, :2] @ params["left"] + rows[:, 2:] @ params["layer"]["right"]
    return jax.nn.softplus(-labels * scores)


def problem_of(kind=np.float32, batch=3, theta=0.05):
    rng = np.random.default_rng(1)
    x0 = {"left": rng.normal(size=2), "layer": {"right": rng.normal(size=cases.D - 2)}}
    x0 = jax.tree.map(lambda a: a.astype(kind), x0)
    return px.Problem(OnLeaves(L1(theta), ("layer/*",)), x0, logistic, batch)


def initial(problem):
    params = problem.x0
    named = {"left": params["left"], "layer/right": params["layer"]["right"]}
    named["buffer"] = np.arange(3)
    return ArrayRecord({name: Array(value) for name, value in named.items()})


def app_of(client, sites):
    app = ClientApp()

    @app.train()
    def train(message, context):
        return client.train(message, context, sites[context.node_config["partition-id"]])

    @app.evaluate()
    def evaluate(message, context):
        assert set(message.content["arrays"]) == {"left", "layer/right", "buffer"}
        return Message(
            RecordDict({"metrics": MetricRecord({"num-examples": 1, "seen": 1.0})}),
            reply_to=message,
        )

    return app


def flown(algorithm, problem, lost=lambda step, node: False, **more):
    with inside_flower():
        nodes = Nodes(app_of(px.flower.Client(algorithm, problem), SITES), lost)
        fedavg = FedAvg(min_available_nodes=CLIENTS)
        strategy = px.flower.Strategy(algorithm, problem, fedavg, seed=SEED, **more)
        times = ROUNDS * len(algorithm.exchanges())
        return strategy.start(nodes, initial(problem), num_rounds=times), strategy


def simulated(algorithm, problem, rounds=ROUNDS, **more):
    about = dict(rounds=rounds, seed=SEED, observe={}, progress=False)
    return px.simulate(algorithm, problem, SITES, **about, **more)


def same(result, wanted, atol):
    found = {name: array.numpy() for name, array in result.arrays.items()}
    assert np.array_equal(found.pop("buffer"), np.arange(3))
    for name, value in wanted.arrays().items():
        np.testing.assert_allclose(found[name], value, atol=atol, rtol=0)
        assert found[name].dtype == value.dtype


chosen = [
    (px.Decoupled(0.05, 1.5, 4), {}),
    (px.DecoupledPartial(0.05, 1.5, 4), {"weights": "samples"}),
    (px.Mime(0.05, 1.0, 3), {}),  # two exchanges
    (px.Scaffold(0.05, 1.0, 3), {}),  # two vectors up
    (px.Compressed(px.DecoupledPartial(0.05, 1.5, 4), px.RandomK(2)), {}),
]


@pytest.mark.parametrize(("algorithm", "more"), chosen, ids=lambda a: type(a).__name__)
def test_an_app_in_single_precision_is_the_simulation(algorithm, more):
    problem = problem_of()
    result, _ = flown(algorithm, problem, **more)
    wanted = simulated(algorithm, problem, **more)
    same(result, wanted, 1e-6)
    rounds = ROUNDS * len(algorithm.exchanges())
    assert set(result.evaluate_metrics_clientapp) == set(range(1, rounds + 1))
    assert result.train_metrics_clientapp[1]["num-examples"] == sum(len(y) for _, y in SITES)


def test_in_double_precision_it_is_the_simulation_to_rounding():
    algorithm, problem = px.Decoupled(0.05, 1.5, 4), problem_of(np.float64)
    same(flown(algorithm, problem)[0], simulated(algorithm, problem), 1e-13)


def test_a_lost_reply_leaves_no_trace_in_the_client():
    """Its next state is made from what the server counted, as if it had not been asked."""
    algorithm, problem = px.DecoupledPartial(0.05, 1.5, 4), problem_of(np.float64)
    result, strategy = flown(algorithm, problem, lost=lambda step, node: (step, node) == (1, 7))
    assert strategy.counted == {40: 3, 7: 3, 23: 3}
    shards, key = px.shards_of(SITES), jax.random.key(SEED)
    run = px.start(algorithm, problem.normalised(), shards, SEED)
    server, clients = run.server, run.clients
    for r, who in enumerate((None, jnp.array([0, 2]), None)):
        place = {"key": round_key(key, r), "who": who}
        ask = lambda clients, down, e, place=place: ask_clients(
            algorithm, problem.normalised(), shards, clients, down, e, **place
        )
        server, clients, _ = one_round(
            algorithm.exchanges(), problem.normalised().g, server, clients, ask
        )
    wanted = algorithm.output(problem.g, server).params
    np.testing.assert_allclose(result.arrays["left"].numpy(), wanted["left"], atol=1e-13)


def test_a_round_that_nobody_answers_is_no_round():
    algorithm, problem = px.DecoupledPartial(0.05, 1.5, 4), problem_of(np.float64)
    result, strategy = flown(algorithm, problem, lost=lambda step, node: step == 1)
    assert strategy.step == ROUNDS - 1
    same(result, simulated(algorithm, problem, rounds=ROUNDS - 1), 1e-13)


def test_what_cannot_be_is_refused_in_a_sentence():
    whole, partial, problem = px.Decoupled(0.05), px.DecoupledPartial(0.05), problem_of()
    first = lambda step, node: node == 7
    with pytest.raises(RuntimeError, match="Decoupled needs every client .* 2 of 3 answered"):
        flown(whole, problem, lost=first)
    with pytest.raises(RuntimeError, match="Weights by rows need the answers of all 3"):
        flown(partial, problem, lost=first, weights="samples")
    with pytest.raises(ValueError, match="adds noise at the clients"):
        px.flower.Strategy(px.Private(whole, 1.0, 1.0), problem)
    with pytest.raises(ValueError, match="weights must be 'uniform' or 'samples'"):
        px.flower.Strategy(whole, problem, weights="rows")
    strategy = px.flower.Strategy(whole, problem)
    with pytest.raises(ValueError, match="initial arrays have no 'layer/right'"):
        strategy.begin(ArrayRecord({"left": Array(np.zeros(2, np.float32))}), Nodes(None))
    wide = ArrayRecord(dict(initial(problem)) | {"left": Array(np.zeros(2))})
    with pytest.raises(ValueError, match=r"'left' is float64\[2\] where the problem has float32"):
        strategy.begin(wide, Nodes(None))


def test_a_client_refuses_other_numbers_and_a_lost_memory():
    algorithm, problem = px.Decoupled(0.05), problem_of()
    rows = SITES[0]
    with inside_flower():
        nodes = Nodes(None)
        strategy = px.flower.Strategy(algorithm, problem, FedAvg(min_available_nodes=CLIENTS))
        message = strategy.configure_train(1, initial(problem), ConfigRecord(), nodes)[0]
        context = next(iter(nodes.contexts.values()))
        for other in (
            px.flower.Client(px.Decoupled(0.06), problem),
            px.flower.Client(algorithm, problem_of(theta=0.06)),
            px.flower.Client(algorithm, problem_of(batch=4)),
        ):
            with pytest.raises(ValueError, match="is another than this client's"):
                other.train(message, context, rows)
        client = px.flower.Client(algorithm, problem)
        message.content["proxfl"]["since"] = 1
        with pytest.raises(ValueError, match="memory of this client is lost"):
            client.train(message, context, rows)
        message.content["proxfl"]["since"] = 0
        with pytest.raises(ValueError, match="has no partition-id"):
            client.train(message, Context(1, 2, {}, RecordDict(), {}), rows)
