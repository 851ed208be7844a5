"""Laws over all methods: each is its paper's loop, and exact or biased as it says."""

import jax
import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.engine.visit import round_key
from proxfl.prox import Zero
from tests import cases, literal
from tests.algorithms.runs import CLOSE, models, solution
from tests.cases import ETA, TAU

each = pytest.mark.parametrize("case", cases.algorithms, ids=lambda c: c.name)
exact = pytest.mark.parametrize(
    "case", [c for c in cases.algorithms if c.exact], ids=lambda c: c.name
)
biased = pytest.mark.parametrize(
    "case",
    [c for c in cases.algorithms if not c.exact and not isinstance(c.algorithm, px.FedAvg)],
    ids=lambda c: c.name,
)


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
        observe={"certificate": measure.Stationarity()},
        until={"certificate": 1e-11},
        every=50,
    )
    assert result.met
    np.testing.assert_allclose(result.model, solution(problem, sites), atol=1e-9)


@biased
def test_it_misses_the_optimum_when_clients_differ(case):
    sites, problem = cases.sites(labels=False), cases.least_squares()
    observe = {"certificate": measure.Stationarity()}
    result = px.simulate(case.algorithm, problem, sites, rounds=4000, observe=observe)
    assert result.history["certificate"][-1] > 1e-4


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


def drawn(p, rounds, first, clients=5):
    """The counts that the server draws, from the places its keys belong to."""
    keys = [round_key(jax.random.key(0), r, 0, clients) for r in range(rounds - 1)]
    return [first, *(int(jax.random.geometric(key, p)) for key in keys)]


@pytest.mark.parametrize(
    "algorithm, twin",
    [
        (
            px.ProxSkip(ETA, TAU, "geometric"),
            literal.proxskip(ETA, TAU, drawn(1 / TAU, 12, TAU)),
        ),
        (px.FedPD(0.4, ETA, TAU, 0.5), literal.fedpd(0.4, ETA, TAU, drawn(0.5, 12, 2))),
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
        observe={"certificate": measure.Stationarity()},
        until={"certificate": 1e-11},
    )
    assert result.met


@pytest.mark.parametrize(
    "method",
    [px.Scaffold(ETA, 1.0, TAU, "I"), px.Scaffold(ETA, 1.0, TAU), px.Mime(ETA, 1.0, TAU, 0.4)]
    + [px.FedPD(0.4, ETA, TAU)],
    ids=repr,
)
def test_smooth_methods_with_a_correction_reach_the_optimum_without_g(method):
    observe = {"certificate": measure.Stationarity()}
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


def test_fedpd_that_skips_stalls_where_clients_differ():
    observe = {"certificate": measure.Stationarity()}
    problem = px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.least_squares().loss)
    sites = cases.sites(labels=False)
    skipping = px.FedPD(0.4, ETA, TAU, 0.5)
    result = px.simulate(skipping, problem, sites, rounds=2000, observe=observe)
    assert result.history["certificate"][-10:].min() > 1e-2


def test_a_skip_that_never_ends_is_refused():
    with pytest.raises(ValueError, match="FedPD.skip must be at least 0 and below 1, got 1.0"):
        px.FedPD(0.4, 0.1, 1, 1.0)
