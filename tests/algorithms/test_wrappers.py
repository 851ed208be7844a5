"""Wrappers: they change nothing at their limits, and do what they say within them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.engine.messages import message_bytes, messages, one_of
from proxfl.engine.round import simulated_round
from tests import cases
from tests.algorithms.runs import models
from tests.cases import ETA, ETA_G, TAU
from tests.engine import test_round

WIDE = 1e9  # a norm no message reaches
DECOUPLED = px.Decoupled(ETA, ETA_G, TAU)
PARTIAL = px.DecoupledPartial(ETA, ETA_G, TAU)
MIME = px.Mime(ETA, 1.0, TAU, 0.3, "every step")
SCAFFOLD = px.Scaffold(ETA, ETA_G, TAU)

# Random in more than its batches, so that relabelling its clients means other draws.
drawing = [
    px.ProxSkip(ETA, TAU, "geometric"),
    px.Private(MIME, 0.1, 0.5, "server", 0.2),
    px.Compressed(MIME, px.Quantised(4)),
    px.Compressed(px.Private(PARTIAL, 0.1, 0.5), px.RandomK(2)),
]
each_drawing = pytest.mark.parametrize("algorithm", drawing, ids=repr)


@each_drawing
def test_simulating_equals_asking_one_client_at_a_time(algorithm):
    case = cases.case(algorithm, None, False)
    cohort = None if algorithm.needs_everyone else 3
    test_round.test_simulating_equals_asking_one_client_at_a_time(case, cohort)


@each_drawing
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(algorithm, tmp_path):
    case = cases.case(algorithm, None, False)
    test_round.test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(case, 3, tmp_path)


@pytest.mark.parametrize(
    "wrap, inner",
    [
        (lambda inner: px.Private(inner, WIDE, 0.0), SCAFFOLD),
        (lambda inner: px.Private(inner, WIDE, 0.0, "server"), MIME),
        (lambda inner: px.Compressed(inner, px.TopK(100)), DECOUPLED),
        (lambda inner: px.Compressed(inner, px.RandomK(100)), SCAFFOLD),
        (lambda inner: px.Compressed(px.Private(inner, WIDE, 0.0), px.TopK(100)), MIME),
    ],
    ids=["Private", "Private-server", "TopK", "RandomK", "both"],
)
def test_at_its_limits_a_wrapper_changes_nothing(wrap, inner):
    problem, sites = cases.problem(batch=3), cases.sites()
    wrapped = models(wrap(inner), problem, sites, 10)
    np.testing.assert_allclose(wrapped, models(inner, problem, sites, 10), atol=1e-15)


def test_wrappers_take_trees_of_parameters_and_blocks_of_clients():
    def loss(params, batch):
        a, y = batch
        return jax.nn.softplus(-y * (a[:, :2] @ params["left"] + a[:, 2:] @ params["right"]))

    problem = px.Problem(
        g=px.prox.OnLeaves(px.prox.L1(0.05)),
        x0={"left": np.zeros(2), "right": np.zeros(cases.D - 2)},
        loss=loss,
    )
    wrapped = px.Compressed(px.Private(PARTIAL, WIDE, 0.0), px.TopK(3))
    tree = px.simulate(wrapped, problem, cases.sites(), rounds=10, block=2, cohort=4).model.params
    flat = px.simulate(wrapped, cases.problem(), cases.sites(), rounds=10, cohort=4).model
    np.testing.assert_allclose(np.concatenate([tree["left"], tree["right"]]), flat, atol=1e-14)


# Private


def uplink(algorithm, key=0, client=1):
    """What one client sends in its first round, and its metrics."""
    problem = jax.tree.map(jnp.asarray, cases.problem())
    shard = jax.tree.map(lambda a: a[client], px.shards_of(cases.sites()))
    server, state = algorithm.init(problem.g, problem.x0)
    exchange = algorithm.exchanges()[0]
    down = exchange.broadcast(problem.g, server)
    f = problem.objective(shard)
    reply = exchange.client(f, problem.g, state, down, jax.random.key(key))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(reply.up)]), reply.info


@pytest.mark.parametrize("inner", [DECOUPLED, SCAFFOLD], ids=lambda m: type(m).__name__)
def test_a_long_message_is_shortened_and_a_short_one_kept(inner):
    plain, _ = uplink(inner)
    length = np.linalg.norm(plain)
    shortened, _ = uplink(px.Private(inner, length / 3, 0.0))
    np.testing.assert_allclose(shortened, plain / 3, atol=1e-15)
    np.testing.assert_array_equal(uplink(px.Private(inner, 3 * length, 0.0))[0], plain)


def test_replacing_a_client_moves_the_mean_by_at_most_twice_the_clip_times_its_share():
    """The sensitivity that the accountant is told."""
    clip, problem, sites = 0.05, cases.problem(), cases.sites()
    flipped = [(a, -y) if i == 2 else (a, y) for i, (a, y) in enumerate(sites)]
    algorithm = px.Private(px.FedAvg(1.0, 1.0, 3), clip, 0.0)
    one, other = (models(algorithm, problem, data, 1)[0] for data in (sites, flipped))
    moved = np.linalg.norm(one - other)
    assert 1.2 * clip / 5 < moved <= 2 * clip / 5 * (1 + 1e-12)


@pytest.mark.parametrize("at, share", [("client", 1.0), ("server", 0.25)])
def test_the_noise_has_the_deviation_that_is_paid_for(at, share):
    private = px.Private(px.FedAvg(0.1), 0.5, 3.0, at, share)
    problem = jax.tree.map(jnp.asarray, cases.problem())
    shards = jax.tree.map(lambda a: a[:1], px.shards_of(cases.sites()))
    shards = shards._replace(weight=jnp.ones(1))

    def moved(seed):
        run = px.start(private, problem, shards)._replace(key=jax.random.key(seed))
        return simulated_round(private, problem, shards, run)[0].server

    deviation = jax.vmap(moved)(jnp.arange(4000)).std(axis=0)
    # The sample deviation of 4000 draws is within 5 percent, at more than four sigma.
    np.testing.assert_allclose(deviation, 3.0 * 0.5 * share, rtol=0.05)


def test_a_private_method_withholds_the_metrics_of_its_clients():
    assert "drift" in uplink(DECOUPLED)[1]
    assert uplink(px.Private(DECOUPLED, 1.0, 1.0))[1] == {}


def after_noise(inner, clip, noise, rounds=50):
    """A private run, then the plain method from where it stands."""
    sites, problem = cases.sites(labels=False), cases.least_squares()
    observe = {"correction": measure.MeanCorrection(), "certificate": measure.Stationarity()}
    first = px.simulate(
        px.Private(inner, clip, noise),
        problem,
        sites,
        rounds=rounds,
        observe={"n": measure.Nonzeros()},
    )
    rest = px.simulate(inner, problem, sites, rounds=2000, every=2, run=first.run, observe=observe)
    return rest.history["correction"][0], rest.history["certificate"][-1]


@pytest.mark.parametrize("clip, noise", [(WIDE, 0.02 / WIDE), (0.05, 0.0)], ids=["noise", "clip"])
def test_algorithm_one_forgets_noise_and_clipping_within_two_rounds(clip, noise):
    correction, certificate = after_noise(DECOUPLED, clip, noise)
    assert correction < 1e-12
    assert certificate < 1e-11


@pytest.mark.parametrize("inner", [PARTIAL, px.AsPrinted(ETA, ETA_G, TAU)], ids=["sums", "printed"])
def test_methods_that_carry_sums_over_never_forget_noise(inner):
    correction, certificate = after_noise(inner, WIDE, 0.02 / WIDE)
    assert correction > 1e-2
    assert certificate > 1e-2


def test_in_algorithm_one_the_mean_correction_is_the_last_rounds_noise_and_no_more():
    """Its size does not grow with the rounds; where the server sums changes it does."""

    def sizes(inner, rounds=600):
        private = px.Private(inner, WIDE, 0.02 / WIDE)
        problem = jax.tree.map(jnp.asarray, cases.least_squares())
        shards = px.shards_of(cases.sites(labels=False))

        def step(run, _):
            run, _ = simulated_round(private, problem, shards, run)
            down = inner.broadcast(problem.g, run.server)
            c = jax.vmap(lambda state: inner.correction(state, down))(run.clients)
            return run, jnp.linalg.norm(c.mean(axis=0))

        start = px.start(private, problem, shards)
        seen = jax.lax.scan(step, start, None, length=rounds)[1]
        return float(seen[:100].mean()), float(seen[-100:].mean())

    early, late = sizes(DECOUPLED)
    assert 0.8 < late / early < 1.25
    early, late = sizes(PARTIAL)
    assert late > 1.8 * early


# Compressed


compressors = [px.TopK(2), px.TopK(1), px.RandomK(2), px.Quantised(8), px.Quantised(2)]
each_compressor = pytest.mark.parametrize("how", compressors, ids=repr)


@pytest.mark.parametrize(
    "how, size",
    [
        (px.TopK(2), 2 * (8 + 4)),
        (px.RandomK(2), 2 * 8 + 8),
        (px.Quantised(8), 6 + 8),
        (px.Quantised(4), 3 + 8),
        (px.Quantised(2), 2 + 8),
    ],
    ids=repr,
)
def test_the_message_is_as_small_as_it_claims(how, size):
    shards = px.shards_of(cases.sites())
    (traced,) = messages(px.Compressed(DECOUPLED, how), cases.problem(), one_of(shards))
    assert message_bytes(traced.up) == size
    assert message_bytes(traced.down) == 8 * cases.D


@each_compressor
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 7, 16])
def test_a_compressed_vector_is_closer_to_the_vector_than_zero_is(how, kind, d):
    """On average over draws, and by the factor that error feedback needs, 1 - k / d."""
    x = jax.random.normal(jax.random.key(d), (d,), kind) ** 3
    keys = jax.random.split(jax.random.key(0), 500)
    out = jax.vmap(lambda key: how.compress(x, key).expand())(keys)
    assert out.dtype == kind
    error = ((out - x[None, :]) ** 2).sum(axis=1).mean() / (x**2).sum()
    if isinstance(how, px.Quantised):
        unit = jnp.abs(x).max() / (2 ** (how.bits - 1) - 1)
        assert jnp.abs(out - x[None, :]).max() <= unit * (1 + 1e-5)
        # Unbiased; each coordinate's mean of 500 draws is within 5 deviations of at most unit / 2.
        np.testing.assert_allclose(out.mean(axis=0), x, atol=5 * float(unit) / 2 / 500**0.5)
    else:
        assert error <= (1 - min(how.k, d) / d) * (1.15 if isinstance(how, px.RandomK) else 1)


@each_compressor
def test_zero_is_compressed_to_zero(how):
    message = how.compress(jnp.zeros(5), jax.random.key(0))
    np.testing.assert_array_equal(message.expand(), np.zeros(5))


@pytest.mark.parametrize("how", [px.TopK(1), px.RandomK(2), px.Quantised(2)], ids=repr)
def test_nothing_is_lost_only_late(how):
    """What was sent and what is owed add up to what the clients wanted to send."""
    algorithm, problem = px.Compressed(px.FedAvg(ETA, 1.0, TAU), how), cases.problem(batch=3)
    shards = px.shards_of(cases.sites())
    run = px.start(algorithm, jax.tree.map(jnp.asarray, problem), shards)
    wanted = jnp.zeros(cases.D)
    for _ in range(5):
        plain = px.Run(run.server, None, run.round, run.key)
        wanted += simulated_round(algorithm.inner, problem, shards, plain)[0].server - run.server
        run, _ = simulated_round(algorithm, problem, shards, run)
    (owed,) = run.clients.owed
    np.testing.assert_allclose(run.server + owed.mean(axis=0), wanted, atol=1e-14)


@pytest.mark.parametrize(
    "how, inner",
    [*((how, PARTIAL) for how in compressors[1:]), (px.TopK(1), px.FedDR(0.4, ETA, TAU))],
    ids=repr,
)
def test_where_clients_send_changes_compression_keeps_the_optimum(how, inner):
    result = px.simulate(
        px.Compressed(inner, how),
        cases.least_squares(),
        cases.sites(labels=False),
        rounds=10_000,
        every=100,
        observe={"certificate": measure.Stationarity()},
        until={"certificate": 1e-11},
    )
    assert result.met


def test_where_clients_send_gradients_compression_stops_at_a_distance_of_the_order_of_eta():
    def floor(eta):
        result = px.simulate(
            px.Compressed(px.Decoupled(eta, 1.0, TAU), px.TopK(2)),
            cases.least_squares(),
            cases.sites(labels=False),
            rounds=round(100 / eta),
            every=20,
            observe={"certificate": measure.Stationarity()},
        )
        return result.history["certificate"][-50:].mean()

    assert floor(0.05) > 1e-2
    assert 2 < floor(0.05) / floor(0.0125) < 8


def test_noise_on_a_compressed_message_is_refused():
    private = px.Private(px.Compressed(DECOUPLED, px.TopK(2)), 1.0, 1.0)
    with pytest.raises(ValueError, match="does not fit a compressed message"):
        px.simulate(private, cases.problem(), cases.sites(), rounds=1)


def test_error_feedback_around_noise_at_the_server_is_refused():
    careless = px.Compressed(px.Private(DECOUPLED, 1.0, 1.0, "server"), px.TopK(2))
    with pytest.raises(ValueError, match="does not cover what error feedback adds"):
        px.simulate(careless, cases.problem(), cases.sites(), rounds=1)


@pytest.mark.parametrize("bits", [0, 3, 16])
def test_a_width_that_does_not_fill_a_byte_is_refused(bits):
    with pytest.raises(ValueError, match="Quantised.bits must be 2, 4 or 8"):
        px.Quantised(bits)
