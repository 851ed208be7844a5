"""The simulator is the same computation, however it is cut, resumed or repeated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.engine.round import draw_cohort
from proxfl.engine.visit import round_key, visit
from proxfl.losses import Logistic
from proxfl.prox import L1, OnLeaves
from tests import cases

each = pytest.mark.parametrize("case", cases.algorithms, ids=lambda c: c.name)


def one_client_at_a_time(algorithm, problem, shards, rounds, cohort=None):
    """What the simulator does, without vmap, scan or jit across clients: a server and its calls."""
    n = shards.size.shape[0]
    run = px.start(algorithm, problem, shards)
    server = run.server
    states = [jax.tree.map(lambda a, i=i: a[i], run.clients) for i in range(n)]
    for r in range(rounds):
        who = range(n) if cohort is None else np.asarray(draw_cohort(run.key, r, n, cohort))
        for e, exchange in enumerate(algorithm.exchanges()):
            down = exchange.broadcast(problem.g, server)
            key = round_key(run.key, r, e)
            ups = []
            for i in who:
                shard = jax.tree.map(lambda a, i=i: a[i], shards)
                reply = visit(
                    algorithm, problem, shard, states[i], down, round_key(key, i), exchange=e
                )
                states[i] = reply.state
                ups.append(reply.up)
            received = cases.received(ups, [shards.weight[i] for i in who], round_key(key, n))
            server = exchange.server(problem.g, server, received)
    return algorithm.output(problem.g, server)


@pytest.mark.parametrize(
    "case, cohort",
    [(case, None) for case in cases.algorithms]
    + [(case, 3) for case in cases.algorithms if not case.algorithm.needs_everyone],
    ids=lambda value: getattr(value, "name", f"cohort {value}"),
)
def test_simulating_equals_asking_one_client_at_a_time(case, cohort):
    problem = jax.tree.map(jnp.asarray, cases.problem(batch=3))
    shards = px.shards_of(cases.sites(), "samples")
    slow = one_client_at_a_time(case.algorithm, problem, shards, 4, cohort)
    fast = px.simulate(case.algorithm, problem, shards, rounds=4, cohort=cohort, observe={}).model
    np.testing.assert_allclose(fast, slow, atol=1e-12)


@each
@pytest.mark.parametrize("batch", [None, 3])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(case, batch, tmp_path):
    sites, problem = cases.sites(), cases.problem(batch=batch)
    straight = px.simulate(case.algorithm, problem, sites, rounds=25, every=5)
    half = px.simulate(case.algorithm, problem, sites, rounds=10, every=5)
    px.save(tmp_path / "run.npz", half.run)
    shards = px.shards_of(sites)
    like = px.start(case.algorithm, jax.tree.map(jnp.asarray, problem), shards, seed=7)
    run = px.load(tmp_path / "run.npz", like)
    rest = px.simulate(case.algorithm, problem, sites, rounds=15, every=5, run=run)
    for a, b in zip(
        jax.tree.leaves(straight.run._replace(key=0)),
        jax.tree.leaves(rest.run._replace(key=0)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    for name in ("objective", "optimality", "round", "bytes_up"):
        joined = np.concatenate([half.history[name], rest.history[name]])
        np.testing.assert_array_equal(straight.history[name], joined)


@pytest.mark.parametrize("block", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("cohort", [None, 4])
def test_working_in_blocks_of_clients_changes_nothing(block, cohort):
    options = dict(rounds=10, cohort=cohort)
    algorithm = px.DecoupledPartial(0.05, 1.5, 4)
    sites, problem = cases.sites(), cases.problem(batch=3)
    whole = px.simulate(algorithm, problem, sites, **options)
    cut = px.simulate(algorithm, problem, sites, block=block, **options)
    np.testing.assert_allclose(whole.model, cut.model, atol=1e-14)
    np.testing.assert_allclose(whole.history["optimality"], cut.history["optimality"], rtol=1e-10)


class Traced:
    """A loss that counts how often JAX traces it."""

    def __init__(self):
        self.times = 0

    def __call__(self, x, batch):
        self.times += 1
        a, y = batch
        return jax.nn.softplus(-y * (a @ x))


def test_new_steps_weights_seeds_and_rounds_compile_nothing():
    loss, sites = Traced(), cases.sites()

    def go(eta, theta, rounds, every, seed):
        problem = px.Problem(g=L1(theta), x0=np.zeros(cases.D), loss=loss)
        algorithm = px.Decoupled(eta, 2 * eta, 3)
        px.simulate(algorithm, problem, sites, rounds=rounds, every=every, seed=seed)

    go(0.05, 0.01, 20, 5, 0)
    before = loss.times
    go(0.07, 0.02, 133, 10, 1)
    go(0.01, 0.03, 1, 1, 2)
    # The border checks trace the loss abstractly (its shape, and the messages); that compiles
    # nothing and does not grow with the rounds.
    shapes_only = 2 * 4
    assert loss.times - before <= shapes_only
    with jax.log_compiles(), pytest.MonkeyPatch.context() as patch:
        compiled = []
        patch.setattr(
            "jax._src.interpreters.pxla.UnloadedMeshExecutable.from_hlo",
            lambda *a, **k: compiled.append(a) or 1 / 0,
        )
        go(0.03, 0.04, 57, 7, 3)
    assert not compiled


def test_equal_keys_give_equal_batches_and_other_keys_others():
    problem = cases.problem(batch=3)
    shard = jax.tree.map(lambda a: a[1], px.shards_of(cases.sites()))
    f = problem.objective(shard)
    x = jnp.ones(cases.D)
    one, other = jax.random.key(1), jax.random.key(2)
    np.testing.assert_array_equal(f.grad(x, one), f.grad(x, one))
    assert np.abs(f.grad(x, one) - f.grad(x, other)).max() > 0


def test_padding_never_enters_a_gradient_or_a_value():
    """Each client of a ragged federation behaves as it would alone."""
    sites, problem = cases.sites(), cases.problem()
    shards, x = px.shards_of(sites), jnp.linspace(-1, 1, cases.D)
    for i, site in enumerate(sites):
        padded = problem.objective(jax.tree.map(lambda a, i=i: a[i], shards))
        alone = problem.objective(jax.tree.map(lambda a: a[0], px.shards_of([site])))
        np.testing.assert_allclose(padded.full_grad(x), alone.full_grad(x), rtol=1e-13)
        np.testing.assert_allclose(padded.value(x), alone.value(x), rtol=1e-13)


def test_a_user_written_loss_gives_what_the_closed_form_gives():
    written = lambda x, batch: jnp.logaddexp(0.0, -batch[1] * (batch[0] @ x))
    for batch in (None, 3):
        closed = cases.problem(batch=batch)
        own = px.Problem(g=closed.g, x0=closed.x0, loss=written, batch=batch)
        algorithm = px.Decoupled(0.1, 1.0, 3)
        a = px.simulate(algorithm, closed, cases.sites(), rounds=20).model
        b = px.simulate(algorithm, own, cases.sites(), rounds=20).model
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_a_tree_of_parameters_moves_like_the_vector_of_its_parts():
    sites = cases.sites()
    flat = px.simulate(px.Decoupled(0.1, 1.5, 3), cases.problem(), sites, rounds=30).model

    def loss(params, batch):
        a, y = batch
        return jax.nn.softplus(-y * (a[:, :2] @ params["left"] + a[:, 2:] @ params["right"]))

    problem = px.Problem(
        g=OnLeaves(L1(0.05)),
        x0={"left": np.zeros(2), "right": np.zeros(cases.D - 2)},
        loss=loss,
    )
    tree = px.simulate(px.Decoupled(0.1, 1.5, 3), problem, sites, rounds=30).model.params
    np.testing.assert_allclose(np.concatenate([tree["left"], tree["right"]]), flat, atol=1e-14)


def test_observations_come_at_the_start_every_k_rounds_and_at_the_end():
    result = px.simulate(
        px.Decoupled(0.1), cases.problem(), cases.sites(), rounds=25, every=10, progress=False
    )
    assert result.history["round"].tolist() == [0, 10, 20, 25]
    assert (np.diff(result.history["seconds"]) >= 0).all()
    assert result.history["bytes_up"][-1] == 25 * result.bytes_up


def test_weights_by_samples_give_the_objective_of_the_pooled_data():
    sites = cases.sites()
    pooled = [tuple(np.concatenate(parts) for parts in zip(*sites, strict=True))]
    options = dict(rounds=3000, every=3000)
    apart = px.simulate(
        px.Decoupled(0.1, 1.0, 3), cases.problem(), sites, weights="samples", **options
    )
    together = px.simulate(px.ProximalGradient(0.3), cases.problem(), pooled, **options)
    np.testing.assert_allclose(apart.model, together.model, atol=1e-10)


def test_precision_is_that_of_the_starting_point():
    for kind in (np.float32, np.float64):
        problem = px.Problem(g=L1(0.05), x0=np.zeros(cases.D, kind), loss=Logistic())
        result = px.simulate(px.Decoupled(0.1), problem, cases.sites(), rounds=5)
        assert result.model.dtype == kind
        assert result.run.server.dtype == kind
