"""Bad input gets one clear sentence, before anything compiles or is written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms.exactness import longest_step
from proxfl.engine.smoothness import advice, largest_of_clients, mean_curvature_bound
from proxfl.losses import Coefficients, Huber, Logistic, Softmax, Squared
from proxfl.points import Tree
from proxfl.prox import L1, MCP
from tests import cases


def run(algorithm=None, problem=None, sites=None, **options):
    options = {"rounds": 5} | options
    return px.simulate(
        algorithm or px.Decoupled(0.1),
        problem or cases.problem(),
        sites or cases.sites(),
        **options,
    )


@pytest.mark.parametrize("eta", [0.0, -1.0, np.nan, np.inf])
def test_a_step_that_is_not_positive_and_finite(eta):
    with pytest.raises(ValueError, match=r"Decoupled.eta must be positive and finite, got"):
        px.Decoupled(eta)


@pytest.mark.parametrize("tau", [0, -3])
def test_no_local_steps(tau):
    with pytest.raises(ValueError, match="FedAvg.tau must be a whole number of at least 1, got"):
        px.FedAvg(0.1, 1.0, tau)


def test_a_name_that_is_not_on_the_list():
    with pytest.raises(ValueError, match="server_prox must be one of full, eta, none, got 'half'"):
        px.FedMid(0.1, 1.0, 2, "half")


def test_a_negative_weight_of_the_regulariser():
    with pytest.raises(ValueError, match="L1.weight must be non-negative and finite, got -0.5"):
        L1(-0.5)


def test_data_that_are_not_finite():
    sites = cases.sites()
    sites[2][0][3, 1] = np.nan
    with pytest.raises(ValueError, match="Client 2 .* not finite, first in row 3"):
        run(sites=sites)


def test_a_client_without_examples():
    sites = [*cases.sites(), (np.zeros((0, cases.D)), np.zeros(0))]
    with pytest.raises(ValueError, match="Client 5 has no examples"):
        run(sites=sites)


def test_no_clients():
    with pytest.raises(ValueError, match="no clients"):
        px.shards_of([])


def test_arrays_of_one_client_that_disagree_on_the_rows():
    with pytest.raises(ValueError, match=r"Client 0 has arrays of shapes \[\(4, 6\), \(3,\)\]"):
        run(sites=[(np.zeros((4, cases.D)), np.ones(3))])


def test_lists_where_arrays_belong():
    with pytest.raises(ValueError, match="Client 0 holds single numbers.*numpy.asarray"):
        run(sites=[(np.zeros((3, cases.D)).tolist(), [1.0, 2.0, 3.0])])


def test_clients_that_disagree_on_the_features():
    sites = [(np.zeros((4, 6)), np.ones(4)), (np.zeros((4, 5)), np.ones(4))]
    with pytest.raises(ValueError, match=r"disagree on the shape of an example: \(5,\) and \(6,\)"):
        run(sites=sites)


def test_text_in_the_data():
    with pytest.raises(ValueError, match="Client 0 has an array of type .*; encode it"):
        run(sites=[(np.array([["a"]]), np.ones(1))])


def test_labels_that_the_loss_does_not_take():
    sites = [(a, (y + 1) / 2) for a, y in cases.sites()]
    with pytest.raises(ValueError, match="-1"):
        run(sites=sites)


def classified(labels, x0):
    rows = [(a, labels[: len(a)]) for a, _ in cases.sites()]
    run(problem=px.Problem(g=L1(0.1), x0=x0, loss=Softmax()), sites=rows)


def test_labels_of_classes_that_the_model_does_not_have():
    labels = np.arange(100) % 4
    with pytest.raises(ValueError, match="Softmax labels must be below 3, .* got 3; number"):
        classified(labels, np.zeros((cases.D, 3)))
    with pytest.raises(ValueError, match="Softmax labels must be integers from 0, got values"):
        classified(labels + 0.5, np.zeros((cases.D, 4)))
    with pytest.raises(ValueError, match=r"one column per class, .* coefficients of shape \(6,\)"):
        classified(labels, np.zeros(cases.D))
    with_intercept = Tree(Coefficients(jnp.zeros((cases.D, 3)), jnp.zeros(3)))
    with pytest.raises(ValueError, match="Softmax labels must be below 3"):
        classified(labels, with_intercept)


@pytest.mark.parametrize(("columns", "targets"), [((2,), ()), ((), (2,)), ((2,), (3,))])
def test_targets_that_do_not_fit_the_coefficients(columns, targets):
    problem = px.Problem(g=L1(0.1), x0=np.zeros((cases.D, *columns)), loss=Squared())
    sites = [(a, np.zeros((len(a), *targets))) for a, _ in cases.sites()]
    with pytest.raises(ValueError, match="Squared needs as many targets per row as the coeff"):
        run(problem=problem, sites=sites)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf])
def test_a_bend_of_huber_that_is_not_positive(delta):
    with pytest.raises(ValueError, match="Huber.delta must be a positive number, got"):
        Huber(delta)


def test_a_starting_point_of_the_wrong_length():
    problem = px.Problem(g=L1(0.1), x0=np.zeros(cases.D + 1), loss=Logistic())
    with pytest.raises(ValueError, match="The loss does not fit x0"):
        run(problem=problem)


def test_a_starting_point_that_is_not_finite():
    problem = px.Problem(g=L1(0.1), x0=np.full(cases.D, np.inf), loss=Logistic())
    with pytest.raises(ValueError, match="x0 holds values that are not finite"):
        run(problem=problem)


def test_weights_of_the_wrong_length_or_sign():
    with pytest.raises(ValueError, match="5 positive numbers, one per client"):
        run(weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="'uniform' or 'samples', got 'rows'"):
        run(weights="rows")


def test_a_batch_larger_than_the_smallest_client():
    with pytest.raises(ValueError, match="the 7 rows of the smallest client, got 8"):
        run(problem=cases.problem(batch=8))


def test_a_cohort_that_does_not_exist():
    with pytest.raises(ValueError, match="between 1 and the 5 clients, got 6"):
        run(px.FedAvg(0.1), cohort=6)


def test_a_cohort_for_a_method_that_needs_everyone():
    with pytest.raises(ValueError, match="Decoupled needs every client.*DecoupledPartial"):
        run(cohort=2)


def test_no_rounds():
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        run(rounds=0)


def test_prox_steps_beyond_what_a_weakly_convex_g_allows():
    problem = px.Problem(g=MCP(0.1, 2.0), x0=np.zeros(cases.D), loss=Logistic())
    with pytest.raises(ValueError, match="only weakly convex.*below 2.*up to 3"):
        run(px.Decoupled(1.0, 1.0, 3), problem)
    with pytest.raises(ValueError, match="up to inf"):
        run(px.FedDA(0.1), problem)
    run(px.Decoupled(0.1, 1.0, 3), problem)


def test_a_run_that_diverges_names_the_round_and_a_step_that_works():
    sites, problem = cases.sites(labels=False), cases.least_squares()
    with pytest.raises(px.DivergenceError, match=r"diverged: after round \d+ .*try eta=") as caught:
        run(px.Decoupled(50.0, 1.0, 2), problem, sites, rounds=5000)
    named = int(str(caught.value).split("after round ")[1].split()[0])
    assert named == int(caught.value.result.run.round) < 5000
    advised = float(str(caught.value).split("try eta=")[1].rstrip("."))
    again = run(px.Decoupled(advised, 1.0, 2), problem, sites, rounds=2000)
    assert again.history["optimality"][-1] < 1e-3


@pytest.mark.parametrize(
    "g, batch, words",
    [
        (L1(0.1), None, "it is proven to converge up to about"),
        (L1(0.1), 4, "it is proven to converge, to within the noise of batches, up to about"),
        (MCP(0.1, 2.0), None, "1/L is about"),  # of a penalty that is not convex nothing is proven
    ],
)
def test_a_step_is_called_proven_where_it_is(g, batch, words):
    problem = px.Problem(g=g, x0=np.zeros(cases.D), loss=Squared(), batch=batch)
    shards = px.shards_of(cases.sites())
    told = advice(px.Decoupled(1.0, 1.0, 3), problem, shards, None)
    assert f"while {words} " in told
    mean = float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0)))
    largest = max(mean, largest_of_clients(problem, shards))
    proven = longest_step(largest, mean, 1.0, 3)
    limit = float(told.split("about ")[1].split(",")[0])
    if batch:
        assert limit < 0.99 * proven
    elif "proven" in words:
        assert limit == pytest.approx(proven, rel=1e-2)


def test_a_loss_whose_gradient_has_another_type_than_x0():
    problem = px.Problem(
        g=L1(0.1), x0={"w": np.zeros(cases.D)}, loss=lambda p, batch: batch[0] @ p["v"]
    )
    with pytest.raises(ValueError, match="The loss does not fit x0"):
        run(problem=problem)
    assert Squared().check(np.ones(3)) is None
    assert jnp.zeros(1).dtype == jnp.float64
