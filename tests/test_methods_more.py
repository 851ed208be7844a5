"""Fixed points, identities and messages of the methods around Algorithm 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl import measure
from proxfl.algorithms import fedadmm, feddr, fedsplit, mime, proxskip, scaffold
from proxfl.engine.blocks import message_bytes, messages, round_key
from proxfl.prox import Zero
from proxfl.rounds import Run, one_round
from tests import cases, literal, literal_more
from tests.cases import ETA, TAU
from tests.test_methods import models, solution

VECTOR = cases.D * 8
# Identities hold in exact arithmetic; over 30 rounds rounding stays within a few hundred eps.
CLOSE = dict(atol=1e-12, rtol=0)


def smooth(batch=None):
    """Logistic regression without a regulariser."""
    return px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.problem().loss, batch=batch)


def from_afar(problem):
    """The same problem from a point that is no fixed point of the prox."""
    return px.Problem(problem.g, np.linspace(-0.4, 0.7, cases.D), problem.loss, problem.batch)


def same(one, other, problem, rounds=30):
    sites = cases.sites()
    np.testing.assert_allclose(
        models(one, problem, sites, rounds), models(other, problem, sites, rounds), **CLOSE
    )


# Identities


@pytest.mark.parametrize("batch", [None, 4])
def test_feddr_with_alpha_one_is_fedadmm(batch):
    problem = from_afar(cases.problem(batch=batch))
    same(px.FedDR(0.4, 0.05, 5, 1.0), px.FedADMM(0.4, 0.05, 5), problem)


def test_so_it_is_when_clients_sit_rounds_out():
    options = dict(rounds=40, cohort=2)
    one = px.simulate(px.FedDR(0.4, 0.05, 5), cases.problem(), cases.sites(), **options)
    other = px.simulate(px.FedADMM(0.4, 0.05, 5), cases.problem(), cases.sites(), **options)
    np.testing.assert_allclose(one.model, other.model, **CLOSE)


@pytest.mark.parametrize("batch", [None, 4])
def test_fedsplit_is_feddr_with_alpha_two(batch):
    problem = from_afar(cases.problem(batch=batch))
    same(px.FedSplit(0.4, 0.05, 5), px.FedDR(0.4, 0.05, 5, 2.0), problem)


def test_fedpd_that_never_skips_is_fedadmm_without_g():
    same(px.FedPD(0.4, 0.05, 5), px.FedADMM(0.4, 0.05, 5), smooth())


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("method", [px.Decoupled, px.DecoupledPartial])
def test_algorithm_one_without_g_is_scaffold_option_two(method, batch):
    same(method(0.1, 1.3, 5), px.Scaffold(0.1, 1.3, 5, "II"), smooth(batch))


@pytest.mark.parametrize("batch", [None, 4])
def test_algorithm_one_without_g_and_server_step_is_scaffnew_of_fixed_length(batch):
    same(px.Decoupled(0.1, 1.0, 5), px.ProxSkip(0.1, 5), smooth(batch))


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize(
    "method", [px.FedProx(0.1, 1.3, 5, 0.0), px.MimeLite(0.1, 1.3, 5)], ids=["FedProx", "MimeLite"]
)
def test_without_pull_or_momentum_it_is_fedavg(method, batch):
    same(method, px.FedAvg(0.1, 1.3, 5), cases.problem(batch=batch))


def test_fedmspp_without_g_on_full_batches_is_fedprox():
    same(px.FedMSPP(0.4, 0.05, 5), px.FedProx(0.05, 1.0, 5, 2.5), smooth())


@pytest.mark.parametrize("period", [1, 3, 100])
def test_dp_spider_without_noise_is_proximal_gradient(period):
    problem = from_afar(cases.problem())
    same(px.DPSpider(0.3, 1e6, 1e6, 0.0, period), px.ProximalGradient(0.3), problem)


def test_mime_with_one_local_step_is_gradient_descent_whatever_the_batch():
    sites = cases.sites()
    with_batches = models(px.Mime(0.3), smooth(batch=1), sites, 20)
    descent = models(px.ProximalGradient(0.3), smooth(), sites, 20)
    np.testing.assert_allclose(with_batches, descent, **CLOSE)


def test_fedmspp_solves_the_problem_of_one_batch():
    """Fresh batches in the inner steps would leave it nowhere near stationary."""
    problem = cases.problem(batch=3)
    f = problem.objective(jax.tree.map(lambda a: a[1], px.shards_of(cases.sites())))
    down, key = jnp.linspace(-1, 1, cases.D), jax.random.key(5)
    reply = px.FedMSPP(0.4, 0.1, 1500).client(f, problem.g, None, down, key)
    y = down + reply.up
    again = problem.g.prox(y - 0.1 * (f.grad(y, key) + (y - down) / 0.4), 0.1)
    np.testing.assert_allclose(y, again, atol=1e-13)
    assert np.abs(f.grad(y, key) - f.full_grad(y)).max() > 1e-3


# Fixed points


def at_solution(method, x, grads):
    """The server's and the clients' states, with gamma = 0.4 and steps as in the test below."""
    everyone = jnp.broadcast_to(x, grads.shape)
    mean = grads.mean(axis=0)
    return {
        px.FedDR: (x - 0.4 * mean, feddr.Split(everyone, everyone + 0.4 * grads)),
        px.FedADMM: (x - 0.4 * mean, fedadmm.Dual(everyone, -grads)),
        px.FedSplit: (x - 0.4 * mean, fedsplit.Split(everyone - 0.4 * grads, everyone)),
        px.ProxSkip: (proxskip.Model(x, None), proxskip.Memory(grads, everyone)),
        px.Mime: (mime.Model(x, mean), everyone),
        px.Scaffold: (scaffold.Model(x, mean), grads),
    }[method]


@pytest.mark.parametrize("n, tau", [(1, 3), (5, 4)])
@pytest.mark.parametrize(
    "method, options, theta",
    [
        (px.FedDR, dict(gamma=0.4, alpha=1.5), 0.05),
        (px.FedADMM, dict(gamma=0.4), 0.05),
        (px.FedSplit, dict(gamma=0.4), 0.05),
        (px.ProxSkip, {}, 0.05),
        (px.Mime, dict(beta=0.3, client_prox="every step"), 0.05),
        (px.Mime, dict(eta_g=1.4, beta=0.3), 0.0),
        (px.Scaffold, dict(eta_g=1.4), 0.0),
        (px.Scaffold, dict(eta_g=1.4, option="I"), 0.0),
    ],
    ids=lambda v: v.__name__ if isinstance(v, type) else None,
)
def test_any_stationary_point_is_a_fixed_point(method, options, theta, n, tau):
    sites, problem = cases.sites(n, labels=False), cases.least_squares(theta)
    x, shards = jnp.asarray(solution(problem, sites)), px.shards_of(sites)
    grads = jnp.stack([jnp.asarray(literal.squared_gradient(a, y)(x)) for a, y in sites])
    algorithm = method(eta=0.03, tau=tau, **options)
    server, clients = at_solution(method, x, grads)
    run = Run(server, clients, jnp.array(0, jnp.int32), jax.random.key(0))
    for _ in range(2):
        run, info = one_round(algorithm, problem, shards, run)
        assert jnp.abs(algorithm.output(problem.g, run.server) - x).max() < 1e-13
        assert info["drift"] < 1e-12


@pytest.mark.parametrize(
    "method",
    [px.Scaffold(ETA, 1.0, TAU, "I"), px.Scaffold(ETA, 1.0, TAU), px.Mime(ETA, 1.0, TAU, 0.4)]
    + [px.FedPD(0.4, ETA, TAU)],
    ids=repr,
)
def test_smooth_methods_with_a_correction_reach_the_optimum_without_g(method):
    observe = {"certificate": measure.Certificate()}
    result = px.simulate(
        method,
        px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.least_squares().loss),
        cases.sites(labels=False),
        rounds=5000,
        every=50,
        observe=observe,
        until={"certificate": 1e-11},
    )
    assert result.met


@pytest.mark.parametrize("cohort", [1, 3])
@pytest.mark.parametrize(
    "method, theta",
    [
        (px.FedDR(0.4, ETA, TAU, 1.5), 0.05),
        (px.FedADMM(0.4, ETA, TAU), 0.05),
        (px.FedSplit(0.4, ETA, TAU), 0.05),
        (px.Scaffold(ETA / 2, 1.0, TAU), 0.0),
    ],
    ids=lambda v: type(v).__name__,
)
def test_methods_with_memory_reach_the_optimum_when_clients_sit_rounds_out(method, theta, cohort):
    result = px.simulate(
        method,
        cases.least_squares(theta),
        cases.sites(labels=False),
        rounds=8000,
        every=50,
        cohort=cohort,
        observe={"certificate": measure.Certificate()},
        until={"certificate": 1e-11},
    )
    assert result.met


# Methods that draw


def drawn(p, rounds, first, clients=5):
    """The counts that the server draws, from the places its keys belong to."""
    keys = [round_key(jax.random.key(0), r, 0, clients) for r in range(rounds - 1)]
    return [first, *(int(jax.random.geometric(key, p)) for key in keys)]


@pytest.mark.parametrize(
    "algorithm, twin",
    [
        (
            px.ProxSkip(ETA, TAU, "geometric"),
            literal_more.proxskip(ETA, TAU, drawn(1 / TAU, 12, TAU)),
        ),
        (px.FedPD(0.4, ETA, TAU, 0.5), literal_more.fedpd(0.4, ETA, TAU, drawn(0.5, 12, 2))),
    ],
    ids=["ProxSkip", "FedPD"],
)
def test_a_method_that_draws_its_length_equals_a_literal_loop_of_that_length(algorithm, twin):
    sites = cases.sites()
    gradients = [literal.logistic_gradient(a, y) for a, y in sites]
    expected = twin(gradients, literal.soft(0.05), np.zeros(cases.D), 12)
    np.testing.assert_allclose(models(algorithm, cases.problem(), sites, 12), expected, **CLOSE)


def test_proxskip_of_random_length_reaches_the_optimum():
    result = px.simulate(
        px.ProxSkip(ETA, TAU, "geometric"),
        cases.least_squares(),
        cases.sites(labels=False),
        rounds=5000,
        every=50,
        observe={"certificate": measure.Certificate()},
        until={"certificate": 1e-11},
    )
    assert result.met


def test_fedpd_that_skips_stalls_where_clients_differ():
    observe = {"certificate": measure.Certificate()}
    problem = px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.least_squares().loss)
    sites = cases.sites(labels=False)
    skipping = px.FedPD(0.4, ETA, TAU, 0.5)
    result = px.simulate(skipping, problem, sites, rounds=2000, observe=observe)
    assert result.history["certificate"][-10:].min() > 1e-2


def test_a_skip_that_never_ends_is_refused():
    with pytest.raises(ValueError, match="FedPD.skip must be at least 0 and below 1, got 1.0"):
        px.FedPD(0.4, 0.1, 1, 1.0)


# Messages


@pytest.mark.parametrize(
    "algorithm, up, down",
    [
        (px.FedProx(0.1), VECTOR, VECTOR),
        (px.FedMSPP(0.4, 0.1), VECTOR, VECTOR),
        (px.Scaffold(0.1), 2 * VECTOR, 2 * VECTOR),
        (px.Mime(0.1), 2 * VECTOR, 2 * VECTOR),
        (px.MimeLite(0.1), 2 * VECTOR, 2 * VECTOR),
        (px.FedSplit(0.4, 0.1), VECTOR, VECTOR),
        (px.FedPD(0.4, 0.1), VECTOR, VECTOR + 4),
        (px.FedDR(0.4, 0.1), VECTOR, VECTOR),
        (px.FedADMM(0.4, 0.1), VECTOR, VECTOR),
        (px.ProxSkip(0.1), VECTOR, VECTOR),
        (px.ProxSkip(0.1, 2, "geometric"), VECTOR, VECTOR + 4),
        (px.DPSpider(0.1, 1.0, 1.0, 1.0), VECTOR, 2 * VECTOR + 8),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, px.Algorithm) else None,
)
def test_messages_are_as_large_as_the_papers_say(algorithm, up, down):
    traced = messages(algorithm, cases.problem(), px.shards_of(cases.sites()))
    assert message_bytes([exchange.up for exchange in traced]) == up
    assert message_bytes([exchange.down for exchange in traced]) == down


def test_mime_takes_two_exchanges_and_mimelite_one():
    assert len(px.Mime(0.1).exchanges()) == 2
    assert len(px.MimeLite(0.1).exchanges()) == 1
