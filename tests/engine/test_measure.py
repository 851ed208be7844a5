"""Metrics mean what their names say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.losses import Squared
from proxfl.prox import L1, Nuclear
from tests import cases, literal


def seen(observers, algorithm=None, problem=None, rounds=7, **options):
    algorithm = algorithm or px.Decoupled(0.05, 1.5, 4)
    problem = problem or cases.problem()
    sites = options.pop("sites", cases.sites())
    return px.simulate(
        algorithm, problem, sites, rounds=rounds, every=1, observe=observers, **options
    )


def test_the_objective_is_the_mean_loss_plus_the_penalty():
    result = seen({"objective": measure.ObjectiveValue()})
    x = result.model
    losses = [np.mean(np.log1p(np.exp(-y * (a @ x)))) for a, y in cases.sites()]
    expected = np.mean(losses) + 0.05 * np.abs(x).sum()
    assert result.history["objective"][-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("step", [0.1, 3.0])
def test_the_prox_gradient_is_that_of_its_formula(step):
    result = seen({"residual": measure.ProxGradient(step)})
    x = result.model
    gradient = np.mean([literal.logistic_gradient(a, y)(x) for a, y in cases.sites()], axis=0)
    moved = literal.soft(0.05)(x - step * gradient, step)
    expected = np.linalg.norm(x - moved) / step
    assert result.history["residual"][-1] == pytest.approx(expected, rel=1e-12)


def test_optimality_is_one_at_the_start_and_scale_free():
    problem, shards = cases.problem(), px.shards_of(cases.sites())
    observe = {"optimality": px.optimality(problem, shards, 0.7)}
    result = seen(observe, px.ProximalGradient(0.3), problem, sites=shards)
    assert result.history["optimality"][0] == pytest.approx(1.0, rel=1e-12)


def test_the_certificate_and_the_prox_gradient_vanish_together():
    observers = {"certificate": measure.Stationarity(), "residual": measure.ProxGradient(0.5)}
    result = seen(observers, px.ProximalGradient(0.3), rounds=4000)
    assert result.history["certificate"][-1] < 1e-13
    assert result.history["residual"][-1] < 1e-13


def test_drift_vanishes_at_the_optimum_for_algorithm_one_and_not_for_fedavg():
    observers = {"drift": measure.Info("drift")}
    problem, sites = cases.least_squares(), cases.sites(labels=False)
    ours = seen(observers, px.Decoupled(0.02, 1.5, 4), problem, 4000, sites=sites)
    theirs = seen(observers, px.FedAvg(0.02, 1.5, 4), problem, 4000, sites=sites)
    assert np.isnan(ours.history["drift"][0])
    assert ours.history["drift"][-1] < 1e-10 < 1e-2 < theirs.history["drift"][-1]


def test_lambda_is_the_scaled_spread_of_corrected_gradients():
    """Against its definition in the paper, from the clients' memories."""
    algorithm = px.Decoupled(0.05, 1.5, 4)
    result = seen({"lambda": measure.LambdaTerm()}, algorithm)
    memory, down = result.run.clients, result.run.server
    x = result.model
    rows = []
    for i, (a, y) in enumerate(cases.sites()):
        c = (memory.start[i] - down) / algorithm.eta_round - memory.mean_grad[i]
        rows.append(0.05 * 4 * (literal.logistic_gradient(a, y)(x) + np.asarray(c)))
    rows = np.array(rows)
    spread = ((rows - rows.mean(axis=0)) ** 2).sum() / (len(rows) * float(algorithm.eta_round))
    assert result.history["lambda"][-1] == pytest.approx(spread, rel=1e-9)


def test_counts_count():
    rng = np.random.default_rng(0)
    sites = [(rng.normal(size=(20, 5)), rng.normal(size=(20, 4))) for _ in range(3)]
    problem = px.Problem(g=Nuclear(0.5), x0=np.zeros((5, 4)), loss=Squared())
    result = seen({"rank": measure.Rank()}, px.ProximalGradient(0.3), problem, 300, sites=sites)
    assert result.history["rank"][-1] == np.linalg.matrix_rank(result.model)

    labels = jnp.array([0, 0, 1, 1, 2, -1])
    observers = {"groups": measure.ActiveGroups(labels, 3), "nonzeros": measure.Nonzeros()}
    result = seen(observers, px.ProximalGradient(0.3), rounds=3000)
    active = {int(g) for g, v in zip(labels, result.model, strict=True) if v != 0 and g >= 0}
    assert result.history["groups"][-1] == len(active)
    assert result.history["nonzeros"][-1] == np.count_nonzero(result.model)


def test_accuracy_is_the_share_of_right_predictions():
    inputs, labels = cases.sites()[0]
    predict = lambda x, a: jnp.sign(a @ x)
    observers = {"accuracy": measure.Accuracy(jnp.asarray(inputs), jnp.asarray(labels), predict)}
    result = seen(observers, rounds=50)
    expected = np.mean(np.sign(inputs @ result.model) == labels)
    assert result.history["accuracy"][-1] == pytest.approx(expected)


def test_a_method_without_corrections_says_so():
    with pytest.raises(TypeError, match="FedAvg keeps no drift correction"):
        seen({"correction": measure.MeanCorrection()}, px.FedAvg(0.1))


def test_a_tree_is_a_vector():
    a, b = (
        px.Tree({"w": jnp.arange(3.0), "b": jnp.array(2.0)}),
        px.Tree({"w": jnp.ones(3), "b": jnp.array(-1.0)}),
    )
    flat = lambda t: jax.flatten_util.ravel_pytree(t)[0]
    for mixed, plain in (
        (a + b, flat(a) + flat(b)),
        (a - b, flat(a) - flat(b)),
        (-a, -flat(a)),
        (2.0 * a, 2 * flat(a)),
        (np.float64(2) * a, 2 * flat(a)),
        (jnp.array(2.0) * a, 2 * flat(a)),
        (a / 4.0, flat(a) / 4),
    ):
        np.testing.assert_allclose(flat(mixed), plain)
    assert L1(0.1).weight == 0.1
