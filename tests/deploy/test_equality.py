"""A deployed run is the simulated one, for every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.core import Algorithm, Reply, repeat
from proxfl.engine.messages import message_bytes
from proxfl.points import zeros_like
from proxfl.pytree import count, positive, pytree
from proxfl.train.drivers.adaptive import Solver
from proxfl.train.drivers.driver import Settings, solve
from proxfl.train.local import LocalFederation, total
from tests import cases
from tests.deploy.world import SEED, World, deployed, drive, stand_in


class FullGradient:
    """First exchange: the mean gradient at the server's point becomes the control variate."""

    def broadcast(self, g, server):
        return server[0]

    def client(self, f, g, state, down, key):
        return Reply(state + 1, f.full_grad(down), {"visits": state})

    def server(self, g, server, received):
        return server[0], received.mean


@pytree
class TwoExchanges(Algorithm):
    """Mime's local steps, with a state that counts the visits so that losing one shows."""

    eta: float = positive()
    tau: int = count(default=1)
    needs_everyone = False

    def exchanges(self):
        return FullGradient(), self

    def init(self, g, x0):
        return (x0, zeros_like(x0)), jnp.zeros((), x0.dtype)

    def broadcast(self, g, server):
        return server

    def client(self, f, g, state, down, key):
        x, c = down
        step = lambda y, t, key: g.prox(
            y - self.eta * (f.grad(y, key) - f.grad(x, key) + c), self.eta
        )
        up = repeat(step, x, key, self.tau) - x
        return Reply(state + 1, up / (1 + state), {"visits": state})

    def server(self, g, server, received):
        return server[0] + received.mean, server[1]

    def output(self, g, server):
        return server[0]


# One case of each class: variants differ in what a client computes, not in how it travels.
everything = {type(case.algorithm): case.algorithm for case in reversed(cases.algorithms)}
everything[TwoExchanges] = TwoExchanges(0.05, 3)
each = pytest.mark.parametrize("algorithm", everything.values(), ids=lambda a: type(a).__name__)


@each
def test_a_deployed_run_equals_the_simulated_one_and_its_ledger_the_shapes(algorithm, tmp_path):
    world, rounds = World(tmp_path, algorithm), 4
    server, federation = deployed(world, rounds)
    wanted = px.simulate(
        algorithm, world.problem, world.shards, rounds=rounds, seed=SEED, observe={}
    )
    np.testing.assert_allclose(algorithm.output(world.problem.g, server), wanted.model, atol=1e-12)
    for a, b in zip(jax.tree.leaves(server), jax.tree.leaves(wanted.run.server), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    ledger, exchanges = federation.ledger, len(algorithm.exchanges())
    shapes = world.experiment(stand_in(world.shards)).messages
    metrics = rounds * message_bytes([shape.info for shape in shapes])
    for site in world.sites:
        up, down = ledger.total("up", site, "round"), ledger.total("down", site, "round")
        assert up.payload == rounds * wanted.bytes_up + metrics
        assert down.payload == rounds * wanted.bytes_down
        assert up.messages == down.messages == rounds * exchanges
        assert up.wire >= up.frame > up.payload and down.wire >= down.frame > down.payload
    assert ledger.faults == []


def test_every_registered_method_is_among_the_cases():
    assert set(px.algorithms.REGISTRY.values()) <= everything.keys()


def test_a_tree_of_parameters_travels_like_a_vector(tmp_path):
    def loss(params, batch):
        a, y = batch
        return jax.nn.softplus(-y * (a[:, :2] @ params["left"] + a[:, 2:] @ params["r"]))

    algorithm = px.Decoupled(0.1, 1.5, 3)
    x0 = px.Tree({"left": np.zeros(2), "r": np.zeros(cases.D - 2)})
    problem = px.Problem(g=px.prox.OnLeaves(px.prox.L1(0.05)), x0=x0, loss=loss)
    world = World(tmp_path, algorithm, problem)
    server, _ = deployed(world, rounds=4)
    wanted = px.simulate(algorithm, problem, world.shards, rounds=4, seed=SEED).model
    found = algorithm.output(problem.g, server)
    for name in ("left", "r"):
        np.testing.assert_allclose(found.params[name], wanted.params[name], atol=1e-13)


def test_single_precision_stays_single(tmp_path):
    algorithm = px.Decoupled(0.05, 1.5, 3)
    problem = px.Problem(
        g=px.prox.L1(0.05), x0=np.zeros(cases.D, np.float32), loss=px.losses.Logistic()
    )
    world = World(tmp_path, algorithm, problem)
    server, _ = deployed(world, rounds=4)
    assert server.dtype == np.float32
    wanted = px.simulate(algorithm, problem, world.shards, rounds=4, seed=SEED).model
    np.testing.assert_allclose(algorithm.output(problem.g, server), wanted, atol=1e-6)


def test_step_sizes_may_change_between_rounds_and_the_shape_of_a_method_may_not(tmp_path):
    world = World(tmp_path, px.Decoupled(0.05, 1.5, 3))
    federation = world.federation()
    problem = jax.tree.map(jnp.asarray, world.problem)
    slower = px.Decoupled(jnp.float64(0.02), 1.5, 3)
    server = drive(federation, world.algorithm, problem, 2)
    server = drive(federation, slower, problem, 4, server, start=2, step=2)
    half = px.simulate(world.algorithm, problem, world.shards, rounds=2, seed=SEED)
    wanted = px.simulate(slower, problem, world.shards, rounds=2, run=half.run)
    np.testing.assert_allclose(server, wanted.run.server, atol=1e-12)
    with pytest.raises(ValueError, match="only its numbers may change"):
        drive(federation, px.Decoupled(0.02, 1.5, 4), problem, 5, server, start=4, step=4)


def test_a_drawn_cohort_is_the_one_the_simulator_draws(tmp_path):
    world = World(tmp_path, px.DecoupledPartial(0.05, 1.5, 4))
    server, _ = deployed(world, 5, cohort=3)
    wanted = px.simulate(
        world.algorithm, world.problem, world.shards, rounds=5, seed=SEED, cohort=3
    )
    for a, b in zip(jax.tree.leaves(server), jax.tree.leaves(wanted.run.server), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_training_over_sites_ends_where_training_over_arrays_ends_with_the_same_bytes(tmp_path):
    """The solver changes steps between rounds and takes rounds back; sites must follow."""
    problem, settings = jax.tree.map(jnp.asarray, cases.problem()), Settings(rounds=60, tol=1e-8)
    shards = px.shards_of(cases.sites(), "samples")
    weights = np.asarray(shards.weight)
    near = LocalFederation(problem, shards, seed=SEED)
    there = solve(Solver(near, problem, weights, settings))
    method = Solver(near, problem, weights, settings).algorithm(there.state)
    world = World(tmp_path, method, cases.problem())
    far = world.federation()
    here = solve(Solver(far, problem, weights, settings))
    assert here.converged and len(here.records) == len(there.records)
    assert not all(record.counted for record in here.records)
    np.testing.assert_allclose(here.x, there.x, atol=1e-12)
    sent = (far.ledger.total("up").payload, far.ledger.total("down").payload)
    assert sent == total(near.ledger)[1:]
