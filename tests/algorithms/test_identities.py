"""Methods that are others in disguise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.engine.round import simulated_round
from proxfl.prox import Zero
from tests import cases, literal
from tests.algorithms.runs import CLOSE, from_afar, models, same, smooth


@pytest.mark.parametrize("eta, eta_g", [(0.3, 1.0), (0.1, 3.0), (0.6, 0.5)])
@pytest.mark.parametrize("method", [px.Decoupled, px.AsPrinted, px.DecoupledPartial])
def test_with_one_local_step_it_is_proximal_gradient(method, eta, eta_g):
    sites, problem = cases.sites(), cases.problem()
    ours = models(method(eta, eta_g, 1), problem, sites, 30)
    # Algorithm 1 first reports P(x0 - ...) from P(x0); with x0 = 0 and g = l1 that is x0 itself.
    reference = models(px.ProximalGradient(eta * eta_g), problem, sites, 30)
    np.testing.assert_allclose(ours, reference, atol=1e-13)


def test_with_one_local_step_and_batches_it_is_proximal_sgd_on_the_union_of_the_batches():
    sites = cases.sites()
    problem = cases.problem(batch=3)
    shards = px.shards_of(sites)
    algorithm = px.Decoupled(0.2, 1.5, 1)
    run = px.start(algorithm, jax.tree.map(jnp.asarray, problem), shards)
    drawn = simulated_round(algorithm, problem, shards, run)[0]
    up = jax.tree.map(lambda a: jnp.mean(a, axis=0), drawn.clients.mean_grad)
    expected = problem.g.prox(run.server - algorithm.eta_round * up, algorithm.eta_round)
    np.testing.assert_allclose(algorithm.output(problem.g, drawn.server), expected, atol=1e-15)


@pytest.mark.parametrize("method", [px.Decoupled, px.AsPrinted, px.DecoupledPartial])
def test_without_g_it_is_scaffold_option_two(method):
    sites = cases.sites()
    problem = px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.problem().loss)
    gradients = [literal.logistic_gradient(a, y) for a, y in sites]
    scaffold = literal.scaffold_two(0.1, 1.3, 5)(gradients, None, np.zeros(cases.D), 40)
    np.testing.assert_allclose(
        models(method(0.1, 1.3, 5), problem, sites, 40), scaffold, atol=1e-12
    )


def test_fedda_without_g_is_fedavg():
    sites = cases.sites()
    problem = px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.problem().loss)
    dual = models(px.FedDA(0.1, 1.3, 5), problem, sites, 30)
    average = models(px.FedAvg(0.1, 1.3, 5), problem, sites, 30)
    np.testing.assert_array_equal(dual, average)


def leaves_zero_late(path):
    """Whether some coordinate enters or re-enters the support, or flips sign, after round 1."""
    signs = np.sign(path)
    return any(
        (now != before)[now != 0].any() for before, now in zip(signs, signs[1:], strict=False)
    )


def test_with_one_local_step_fedda_and_algorithm_one_agree_until_a_coordinate_leaves_zero_late():
    agreed = []
    for seed in range(40):
        sites, problem = cases.sites(seed=seed), cases.problem(0.08)
        ours = np.array(models(px.Decoupled(0.3, 1.0, 1), problem, sites, 60))
        dual = np.array(models(px.FedDA(0.3, 1.0, 1), problem, sites, 60))
        same = np.allclose(ours, dual, atol=1e-9)
        assert same == (not leaves_zero_late(ours)), seed
        agreed.append(same)
    assert 0 < sum(agreed) < 40  # both sides of the criterion are seen


@pytest.mark.parametrize("batch", [None, 4])
def test_feddr_with_alpha_one_is_fedadmm(batch):
    problem = from_afar(cases.problem(batch=batch))
    same(px.FedDR(0.4, 0.05, 5, 1.0), px.FedADMM(0.4, 0.05, 5), problem)


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
