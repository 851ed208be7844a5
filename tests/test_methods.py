"""What each method does, by laws and against a slow twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl import measure
from proxfl.prox import L1, Zero
from proxfl.rounds import Run, one_round
from tests import cases, literal

each = pytest.mark.parametrize("case", cases.algorithms, ids=lambda c: c.name)
exact = pytest.mark.parametrize(
    "case", [c for c in cases.algorithms if c.exact], ids=lambda c: c.name
)
biased = pytest.mark.parametrize(
    "case",
    [c for c in cases.algorithms if not c.exact and not isinstance(c.algorithm, px.FedAvg)],
    ids=lambda c: c.name,
)


def models(algorithm, problem, sites, rounds, **options):
    """The model reported after every round."""
    shards = px.shards_of(sites, **options)
    run, seen = px.start(algorithm, jax.tree.map(jnp.asarray, problem), shards), []
    step = jax.jit(lambda run: one_round(algorithm, problem, shards, run)[0])
    for _ in range(rounds):
        run = step(run)
        seen.append(np.asarray(algorithm.output(problem.g, run.server)))
    return seen


def solution(problem, sites, **options):
    """The optimum, by many proximal gradient steps."""
    step = px.ProximalGradient(0.1)
    result = px.simulate(
        step,
        problem,
        sites,
        rounds=200_000,
        until={"certificate": 1e-14},
        observe={"certificate": measure.Certificate()},
        every=100,
        **options,
    )
    return result.model


@each
def test_it_equals_a_literal_loop_of_its_equations(case):
    sites = cases.sites()
    gradients = [literal.logistic_gradient(a, y) for a, y in sites]
    expected = case.literal(gradients, literal.soft(0.05), np.zeros(cases.D), 12)
    found = models(case.algorithm, cases.problem(0.05), sites, 12)
    # Twelve rounds of a contraction: rounding stays within a few hundred eps of the model's size.
    np.testing.assert_allclose(found, expected, atol=1e-12, rtol=0)


@exact
def test_it_reaches_the_optimum(case):
    sites, problem = cases.sites(labels=False), cases.least_squares()
    result = px.simulate(
        case.algorithm,
        problem,
        sites,
        rounds=20_000,
        observe={"certificate": measure.Certificate()},
        until={"certificate": 1e-11},
        every=50,
    )
    assert result.met
    np.testing.assert_allclose(result.model, solution(problem, sites), atol=1e-9)


@biased
def test_it_misses_the_optimum_when_clients_differ(case):
    sites, problem = cases.sites(labels=False), cases.least_squares()
    observe = {"certificate": measure.Certificate()}
    result = px.simulate(case.algorithm, problem, sites, rounds=4000, observe=observe)
    assert result.history["certificate"][-1] > 1e-4


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
        run, info = one_round(algorithm, problem, shards, run)
        moved = algorithm.output(problem.g, run.server) - x
        assert jnp.abs(moved).max() < 1e-13
        assert info["drift"] < 1e-12


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
    drawn = one_round(algorithm, problem, shards, run)[0]
    up = jax.tree.map(lambda a: jnp.mean(a, axis=0), drawn.clients.mean_grad)
    expected = problem.g.prox(run.server - algorithm.eta_round * up, algorithm.eta_round)
    np.testing.assert_allclose(algorithm.output(problem.g, drawn.server), expected, atol=1e-15)


@pytest.mark.parametrize("method", [px.Decoupled, px.AsPrinted, px.DecoupledPartial])
@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("batch", [None, 4])
def test_corrections_average_to_zero(method, weights, batch):
    result = px.simulate(
        method(cases.ETA, cases.ETA_G, cases.TAU),
        cases.problem(batch=batch),
        cases.sites(),
        weights=weights,
        rounds=200,
        every=1,
        observe={"correction": measure.MeanCorrection()},
    )
    assert result.history["correction"].max() < 1e-12


@pytest.mark.parametrize("method", [px.Decoupled, px.AsPrinted, px.DecoupledPartial])
def test_without_g_it_is_scaffold_option_two(method):
    sites = cases.sites()
    problem = px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.problem().loss)
    gradients = [literal.logistic_gradient(a, y) for a, y in sites]
    scaffold = literal.scaffold_two(0.1, 1.3, 5)(gradients, None, np.zeros(cases.D), 40)
    np.testing.assert_allclose(
        models(method(0.1, 1.3, 5), problem, sites, 40), scaffold, atol=1e-12
    )


def test_with_one_client_there_is_nothing_to_correct():
    result = px.simulate(
        px.Decoupled(0.1, 2.0, 6),
        cases.problem(),
        cases.sites(1),
        rounds=100,
        observe={"correction": measure.MeanCorrection()},
    )
    assert result.history["correction"].max() < 1e-13


def test_with_everyone_present_server_memory_changes_no_iterate():
    sites, problem = cases.sites(), cases.problem()
    plain = models(px.Decoupled(0.1, 1.5, 5), problem, sites, 50)
    memory = models(px.DecoupledPartial(0.1, 1.5, 5), problem, sites, 50)
    np.testing.assert_allclose(plain, memory, atol=1e-13)


@each
def test_relabelling_clients_changes_nothing(case):
    sites = cases.sites()
    one = models(case.algorithm, cases.problem(), sites, 20)
    other = models(case.algorithm, cases.problem(), sites[::-1], 20)
    np.testing.assert_allclose(one, other, atol=1e-13)


@each
def test_one_client_of_double_weight_equals_two_copies(case):
    first, *rest = cases.sites()
    doubled = models(
        case.algorithm, cases.problem(), [first, *rest], 20, weights=[2.0, 1.0, 1.0, 1.0, 1.0]
    )
    twice = models(case.algorithm, cases.problem(), [first, first, *rest], 20)
    np.testing.assert_allclose(doubled, twice, atol=1e-13)


def test_fedda_without_g_is_fedavg():
    sites = cases.sites()
    problem = px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.problem().loss)
    dual = models(px.FedDA(0.1, 1.3, 5), problem, sites, 30)
    average = models(px.FedAvg(0.1, 1.3, 5), problem, sites, 30)
    np.testing.assert_array_equal(dual, average)


@pytest.mark.parametrize("n, tau", [(5, 1), (1, 6)])
def test_fedda_stays_at_the_optimum_without_drift(n, tau):
    """One local step, or one client: start the dual at x* and it stays."""
    sites = cases.sites(n, labels=False)
    x = solution(cases.least_squares(), sites)
    problem = px.Problem(g=L1(0.05), x0=np.asarray(x), loss=cases.least_squares().loss)
    seen = models(px.FedDA(0.03, 1.0, tau), problem, sites, 40)
    np.testing.assert_allclose(seen, np.broadcast_to(x, (40, cases.D)), atol=1e-12)


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


@pytest.mark.parametrize("cohort", [1, 2, 4])
def test_partial_participation_converges_to_the_optimum(cohort):
    sites, problem = cases.sites(), cases.problem()
    result = px.simulate(
        px.DecoupledPartial(0.05, 1.0, 4),
        problem,
        sites,
        rounds=60_000,
        cohort=cohort,
        until={"optimality": 1e-10},
        every=100,
    )
    assert result.met


def test_a_fifth_of_the_clients_per_round_suffices():
    sites = cases.sites(20)
    options = dict(rounds=60_000, cohort=4, until={"optimality": 1e-10}, every=100)
    assert px.simulate(px.DecoupledPartial(0.05, 1.0, 4), cases.problem(), sites, **options).met
