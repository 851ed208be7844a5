"""Where methods stay, and where they end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms import fedadmm, feddr, fedsplit, mime, proxskip, scaffold
from proxfl.engine import measure
from proxfl.engine.round import Run, simulated_round
from proxfl.prox import L1
from tests import cases, literal
from tests.algorithms.runs import models, solution


@pytest.mark.parametrize("tau", [1, 2, 7])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("method", [px.Decoupled, px.AsPrinted, px.DecoupledPartial])
def test_any_stationary_point_is_a_fixed_point(method, n, tau):
    """Start at x*, with c_i = grad f(x*) - grad f_i(x*); nothing may move."""
    sites, problem = cases.sites(n, labels=False), cases.least_squares()
    x = solution(problem, sites)
    algorithm = method(0.03, 1.7, tau)
    shards = px.shards_of(sites)
    grads = jnp.stack([jnp.asarray(literal.squared_gradient(a, y)(x)) for a, y in sites])
    mean = grads.mean(axis=0)
    before = jnp.asarray(x) - algorithm.eta_round * mean
    if method is px.DecoupledPartial:
        server, clients = algorithm.init(problem.g, before)[0]._replace(mean_grad=mean), grads
    else:
        memory = type(algorithm.init(problem.g, before)[1])
        server, clients = before, memory(jnp.broadcast_to(jnp.asarray(x), grads.shape), grads)
    run = Run(server, clients, jnp.array(0, jnp.int32), jax.random.key(0))
    for _ in range(3):
        run, info = simulated_round(algorithm, problem, shards, run)
        moved = algorithm.output(problem.g, run.server) - x
        assert jnp.abs(moved).max() < 1e-13
        assert info["drift"] < 1e-12


def test_with_one_client_there_is_nothing_to_correct():
    result = px.simulate(
        px.Decoupled(0.1, 2.0, 6),
        cases.problem(),
        cases.sites(1),
        rounds=100,
        observe={"correction": measure.MeanCorrection()},
    )
    assert result.history["correction"].max() < 1e-13


@pytest.mark.parametrize("n, tau", [(5, 1), (1, 6)])
def test_fedda_stays_at_the_optimum_without_drift(n, tau):
    """One local step, or one client: start the dual at x* and it stays."""
    sites = cases.sites(n, labels=False)
    x = solution(cases.least_squares(), sites)
    problem = px.Problem(g=L1(0.05), x0=np.asarray(x), loss=cases.least_squares().loss)
    seen = models(px.FedDA(0.03, 1.0, tau), problem, sites, 40)
    np.testing.assert_allclose(seen, np.broadcast_to(x, (40, cases.D)), atol=1e-12)


def test_fedmid_with_one_client_and_one_step_solves_for_twice_the_weight():
    sites = cases.sites(1, labels=False)
    limit = px.simulate(
        px.FedMid(0.1), cases.least_squares(0.05), sites, rounds=20_000, every=20_000
    ).model
    np.testing.assert_allclose(limit, solution(cases.least_squares(0.1), sites), atol=1e-12)


def test_the_double_count_of_fast_fedda_is_a_negative_ridge():
    """Its limit solves 0 in grad f + dg - (mu / (2 tau)) w; without it the optimum is right."""
    sites, mu, tau = cases.sites(1, labels=False), 0.1, 2
    rounds = dict(rounds=30_000, every=30_000)
    problem = cases.least_squares()
    counted = px.simulate(px.FastFedDA(mu, 20.0, tau), problem, sites, **rounds).model
    single = px.simulate(px.FastFedDA(mu, 20.0, tau, "no"), problem, sites, **rounds).model
    a, y = sites[0]
    gradient = literal.squared_gradient(a, y)(counted) - mu / (2 * tau) * counted
    # Dual averaging closes in like 1/t, and t is 6e4.
    assert problem.g.distance(jnp.asarray(counted), jnp.asarray(gradient)) < 2e-4
    assert np.abs(counted - single).max() > 1e-3
    np.testing.assert_allclose(single, solution(problem, sites), atol=1e-4)


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
def test_stationary_points_of_other_methods_are_fixed_points(method, options, theta, n, tau):
    sites, problem = cases.sites(n, labels=False), cases.least_squares(theta)
    x, shards = jnp.asarray(solution(problem, sites)), px.shards_of(sites)
    grads = jnp.stack([jnp.asarray(literal.squared_gradient(a, y)(x)) for a, y in sites])
    algorithm = method(eta=0.03, tau=tau, **options)
    server, clients = at_solution(method, x, grads)
    run = Run(server, clients, jnp.array(0, jnp.int32), jax.random.key(0))
    for _ in range(2):
        run, info = simulated_round(algorithm, problem, shards, run)
        assert jnp.abs(algorithm.output(problem.g, run.server) - x).max() < 1e-13
        assert info["drift"] < 1e-12
