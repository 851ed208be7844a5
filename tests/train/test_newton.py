"""Laws of Newton's method: its curvature, its step, its certificate, and what stops it."""

from collections import Counter
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.losses import REGISTRY, Coefficients, Loss
from proxfl.points import Tree, norm
from proxfl.prox import L1, Box, GroupL2, NonNegative, Nuclear, OnLeaves, Ridge, Simplex, Zero
from proxfl.pytree import pytree
from proxfl.tables import Table
from proxfl.train.choice import Choice
from proxfl.train.drivers.model_step import bend, minimise
from proxfl.train.federation import FAR, NEAR
from proxfl.train.folds import path_with_folds
from proxfl.train.method import Along, cost, method_for
from proxfl.train.spec import Spec, convex_losses
from proxfl.train.train import begin, train
from tests.outcomes import soak, together
from tests.train.random_problems import LOSSES, Reference, drawn

D = 4


def table(A, y, name="a"):
    return Table(name, "", "y", tuple(f"x{j}" for j in range(A.shape[1])), A, y * 1.0, "")


def data(loss, outputs, rows=9, seed=0):
    rng = np.random.default_rng(seed)
    A, z = rng.normal(size=(rows, D)), rng.normal(size=(rows, outputs))
    y = REGISTRY[loss].target.encoded(rows, outputs)
    labels = np.abs(np.sign(z) if y.dtype.kind == "f" else z.argmax(axis=1))
    return jnp.asarray(A), jnp.asarray(labels.reshape(y.shape), y.dtype)


OWN = [name for name, kind in convex_losses().items() if kind.hessian is not Loss.hessian]


@pytest.mark.parametrize("loss", OWN)
def test_a_hessian_is_the_derivative_of_the_gradient_and_heeds_weights(loss):
    """On all features or some; that of a loss's own second derivative is that of its gradient."""
    for outputs in (1, 3):
        if outputs == 1 and REGISTRY[loss].target.most > 2:
            continue
        made, batch = REGISTRY[loss](), data(loss, outputs)
        shape = () if outputs == 1 else (outputs,)
        rng = np.random.default_rng(1)
        x = Tree(Coefficients(jnp.asarray(rng.normal(size=(D, *shape))), jnp.zeros(shape)))
        weights = jnp.asarray(np.append(rng.uniform(size=8), 0.0))
        for features in (jnp.arange(D + 1), jnp.asarray([2, D])):
            own = made.hessian(x, batch, weights, features)
            by_autodiff = Loss.hessian(made, x, batch, weights, features)
            np.testing.assert_allclose(own, by_autodiff, atol=1e-13)
        far = jax.tree.map(lambda a: a.at[-1].mul(10**6), batch[0]), batch[1]
        np.testing.assert_allclose(made.hessian(x, far, weights, features), own, atol=1e-13)


PENALTIES = {
    "none": Zero(),
    "l1": L1(0.3),
    "weighted l1": L1(np.array([0.0, 1.0, 0.2, 0.5, 0.0, 0.1])),
    "l1 and l2": Ridge(L1(0.2), 0.1),
    "box": Box(-0.1, 0.3),
    "nonneg": NonNegative(),
    "groups": GroupL2.of(np.array([0, 0, 1, 1, 2, -1]), 0.3),
    "simplex": Simplex(1.0),
    "nuclear": Nuclear(0.3),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("rank", [6, 3])
def test_a_step_ends_at_the_least_point_of_its_model(name, rank):
    """Also where directions are flat: there it is that of the bent model."""
    g, rng = PENALTIES[name], np.random.default_rng(rank)
    B = rng.normal(size=(rank, 6)) * 10.0 ** np.linspace(0, 1.5, rank)[:, None]
    H, shape = jnp.asarray(B.T @ B), (3, 2) if name == "nuclear" else (6,)
    gradient = (H @ rng.normal(size=6)).reshape(shape)
    x = g.prox(jnp.asarray(rng.normal(size=shape)), 1.0)
    bent = jax.jit(bend)(H, gradient.ravel(), norm(gradient), 1.0)
    u, _ = jax.jit(minimise)(g, x, gradient, bent, 1e-12)
    slope = gradient + (bent.hessian @ (u - x).ravel()).reshape(shape)
    assert g.distance(u, slope) <= 1e-8 * norm(gradient)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_penalty_leaves_alone_is_not_rounded_by_the_steepest_feature(seed):
    rng = np.random.default_rng(seed)
    B = np.column_stack([rng.normal(size=(40, 4)) * [1, 1, 1, 1e3], np.ones(40)])
    H, gradient = jnp.asarray(B.T @ B / 40), jnp.append(rng.normal(size=4), -36.0)
    as_point = lambda v: Tree(Coefficients(v[:-1], v[-1]))
    bent, g = bend(H, gradient, norm(gradient), jnp.ones(())), OnLeaves(L1(0.1), ("coef",))
    u, _ = jax.jit(minimise)(g, as_point(jnp.zeros(5)), as_point(gradient), bent, 0.0)
    slope, size = B.T @ (B @ ravel_pytree(u)[0]) / 40 + gradient, 36 + abs(B).T @ abs(B) / 40
    rounding = np.finfo(float).eps * size[-1] @ abs(ravel_pytree(u)[0])
    assert abs(slope[-1]) <= 4 * rounding


def test_flat_directions_are_bent_so_that_the_way_along_them_is_not_too_long():
    H, gradient = jnp.diag(jnp.asarray([2.0, 0.0])), jnp.asarray([4.0, 3.0])
    bent = bend(H, gradient, norm(gradient), jnp.asarray(5.0))
    step = -jnp.linalg.solve(bent.hessian, gradient)
    np.testing.assert_allclose(step, [-2.0, -5.0], rtol=1e-12)
    nothing = bend(jnp.zeros((2, 2)), gradient, norm(gradient), jnp.asarray(5.0))
    assert norm(jnp.linalg.solve(nothing.hessian, gradient)) <= 5.0 * (1 + 1e-12)


def test_what_the_penalty_holds_does_not_bend_the_way_of_what_is_free():
    """One row near enough to curve the loss leaves all but one direction flat, and steep where
    coefficients are held at zero; the intercept, free, must still arrive."""
    y = np.array([0.0, 10.0, 20.0, 30.6, 41.0, 50.0, 60.0])
    A = np.random.default_rng(0).normal(size=(7, 4))
    spec = Spec(loss="huber", target="y", l1=5.0, tol=1e-10, precondition=False, rounds=40)
    found = train(spec.replace(algorithm="newton"), [table(A, y)])
    assert found.solution.converged and not found.model.coef.any()
    assert found.model.intercept == pytest.approx(30.6)


def test_a_bound_nearer_than_the_gradient_is_long_is_reached():
    """There a gradient step is short, however far a subgradient is from 0."""
    A, y = logistic()
    spec = Spec(target="y", loss="logistic", box=(-1e-3, 1e-3), intercept=False, tol=1e-9)
    fit = train(spec, [table(A, y)])
    assert fit.solution.converged
    np.testing.assert_allclose(np.abs(fit.model.coef), 1e-3, rtol=1e-12)


WORSE, BETTER = 1e-8, 1e-4  # relative to the objective: of ours to a solver's, and of it to ours


def judged(seed):
    """How near to a conic solver's a model came; it may not be worse, nor much better.

    The objective at both is told by the same formula, which is not ours: a solver that was not
    accurate can only be worse than ours, and then proves less.
    """
    spec, tables = drawn(seed)
    fit, reference = train(spec.replace(algorithm="newton"), tables), Reference.of(spec, tables)
    found = reference.at(fit.model.coef, fit.model.intercept)
    assert fit.solution.converged
    assert fit.solution.objective == pytest.approx(found, rel=1e-10, abs=1e-11)
    apart = (reference.least() - found) / max(0.1, abs(found))
    assert -WORSE <= apart <= BETTER
    near = "equal to 1e-8" if apart <= WORSE else "better than the reference"
    return Counter(
        {
            f"{spec.loss}: {near}": 1,
            "largest part of the objective by which ours is worse": max(-apart, 0.0),
            "largest part of the objective by which ours is better": max(apart, 0.0),
        }
    )


@pytest.mark.parametrize("seed", range(len(LOSSES)))
def test_models_are_those_of_a_conic_solver_on_the_pooled_rows(seed):
    judged(seed)


@pytest.mark.soak
def test_many_models_are_those_of_a_conic_solver_on_the_pooled_rows():
    soak("conic", range(10, 210), 10, lambda seeds: reduce(together, map(judged, seeds)))


def logistic(rows=40, features=D, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, features))
    return A, (A[:, 0] + rng.logistic(size=rows) > 0) * 1.0


def test_collinear_and_constant_columns_do_no_harm():
    A, y = logistic()
    more = np.column_stack([A, A[:, 0] - 2 * A[:, 1], np.full(len(A), 0.1)])
    plain = train(Spec(target="y", loss="logistic", tol=1e-9), [table(A, y)])
    odd = train(Spec(target="y", loss="logistic", tol=1e-9), [table(more, y)])
    assert odd.solution.converged
    assert odd.solution.objective == pytest.approx(plain.solution.objective, rel=1e-12)
    assert np.abs(odd.model.coef).max() < 10 * np.abs(plain.model.coef).max()


FROM_FAR = {
    "poisson": lambda A: np.floor(1e6 * np.exp(A[:, 0])),
    "huber": lambda A: 1e6 + A[:, 0],
    "squared": lambda A: 1e6 + 1e3 * A[:, 0] + 1e9 * (np.arange(len(A)) == 3),
}


@pytest.mark.parametrize("loss", FROM_FAR)
def test_a_start_far_away_or_an_outlier_does_not_stop_it(loss):
    A, _ = logistic()
    fit = train(Spec(target="y", loss=loss, tol=1e-8), [table(A, FROM_FAR[loss](A))])
    assert fit.solution.converged and fit.ledger["newton"].exchanges <= 40


def test_sites_of_one_row_give_the_model_of_all_rows():
    A, y = logistic(rows=12)
    spec = Spec(target="y", loss="logistic", l1=0.02, tol=1e-9)
    alone = train(spec, [table(A, y)])
    many = train(spec, [table(A[[i]], y[[i]], f"s{i:02d}") for i in range(12)])
    np.testing.assert_allclose(many.model.coef, alone.model.coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["scaled", "rotated", "correlated"])
def test_hard_features_take_few_exchanges(kind):
    """All of them: agreement, steps, certificate and gap; n = 20 sites, to 1e-10."""
    rng, (n, d) = np.random.default_rng(0), (20, 40)
    A = rng.normal(size=(n * 30, d)) * 10.0 ** rng.uniform(-2, 2, size=d)
    if kind == "rotated":
        A = A @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    if kind == "correlated":
        A = (
            rng.normal(size=(n * 30, d))
            @ np.linalg.cholesky(0.95 ** np.abs(np.subtract.outer(range(d), range(d)))).T
        )
    z = (A - A.mean(axis=0)) / A.std(axis=0) @ (rng.normal(size=d) * (np.arange(d) < 8))
    y = (z + rng.logistic(size=len(z)) > 0) * 1.0
    tables = [table(A[i::n], y[i::n], f"s{i:02d}") for i in range(n)]
    spec = Spec(target="y", loss="logistic", l1=0.005, standardise=True, tol=1e-10)
    fit = train(spec, tables)
    assert fit.solution.converged
    assert sum(kind.exchanges for kind in fit.ledger.values()) <= 15


def test_a_quadratic_loss_is_asked_for_its_hessian_once():
    A, _ = logistic()
    fit = train(Spec(target="y", loss="squared", l1=0.1), [table(A, A[:, 0] ** 2)])
    assert fit.ledger["newton"].exchanges == 2
    ups = np.diff([traffic.up for traffic in fit.traffic])
    assert ups[0] < 8 * (D + 1) * (D + 2) / 2 + 8 * 20


def reason(rows=40, features=D, link=FAR, **options):
    A, y = logistic(rows, features)
    spec = Spec(target="y", loss="logistic", **options)
    return method_for(spec, begin(spec, [table(A, y)]).agreement, link)


def test_the_method_is_chosen_by_cost_and_says_why():
    assert reason().name == "newton" and "exchanges" in reason().reason
    many = reason(rows=5, features=1400)
    assert many.name == "decoupled" and "against" in many.reason
    slow = reason(rows=5, features=1400, link=FAR._replace(latency=60.0))
    assert slow.name == "newton"
    assert "too large" in reason(rows=5, features=3000).reason
    assert reason(local_steps=3) == (
        "decoupled",
        "Algorithm 1, since local_steps means nothing to Newton's method.",
    )
    assert reason(algorithm="decoupled").name == "decoupled"


def test_the_same_model_takes_its_method_by_where_the_sites_are():
    """Exchanges are what a network makes dear, and the server's cube what one process does."""
    near, far = (reason(rows=60, features=400, link=link) for link in (NEAR, FAR))
    assert (near.name, far.name) == ("decoupled", "newton")
    assert "in one process" in near.reason and "in one process" not in far.reason


@pytest.mark.parametrize("options", [{"batch": 3}, {"cohort": 1}, {"local_steps": 2}, {"eta": 0.1}])
def test_what_newton_would_ignore_is_refused(options):
    A, y = logistic()
    with pytest.raises(InputError, match="'newton'"):
        train(Spec(target="y", loss="logistic", algorithm="newton", **options), [table(A, y)])


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_what_a_path_is_predicted_to_cost_is_about_what_it_costs(loss):
    """All its models and folds; to a factor of two in exchanges and in bytes."""
    A, y = logistic(rows=90, features=12)
    sites = [table(A[i::2], y[i::2], name) for i, name in enumerate("ab")]
    choice, spec = Choice(points=10, folds=2), Spec(target="y", loss=loss)
    walked, _ = path_with_folds(spec, sites, choice)
    told, agreement = walked.traffic, walked.agreement
    predicted = cost("newton", spec, agreement, NEAR, Along(choice.points, 1 + choice.folds))
    assert f"{predicted}" in walked.method.reason
    assert 0.5 <= told.exchanges / predicted.exchanges <= 2
    assert 0.5 <= (told.up + told.down) / len(sites) / predicted.bytes <= 2


def watched(g, looked):
    """The same penalty, which notes each time that a program takes its prox."""

    @pytree
    class Watched(Regulariser):
        value, distance, bound = g.value, g.distance, g.bound

        def prox(self, x, step):
            jax.debug.callback(lambda _: looked.append(0), x[0])
            return g.prox(x, step)

    return Watched()


def test_a_run_that_gives_back_its_point_is_the_last():
    """Features and outputs of zeros have coefficients that shrink for ever: rounding, all of it."""
    rng, looked = np.random.default_rng(0), []
    A = rng.uniform(size=(40, 32)) * (np.arange(32) < 3)
    B = np.kron(np.column_stack([A * (A > 0.6), np.ones(40)]), np.eye(2))
    H, y = jnp.asarray(B.T @ B / 40), np.kron(rng.integers(4, size=40), [1, 0])
    g = OnLeaves(watched(Nuclear(0.01), looked), ("coef",))
    as_point = lambda v: Tree(Coefficients(v[:-2].reshape(32, 2), v[-2:]))
    slope = lambda u: as_point(H @ ravel_pytree(u)[0] - B.T @ y / 40)
    u = as_point(jnp.zeros(66))
    for part in (1e-8, 0.0):
        bent = bend(H, ravel_pytree(slope(u))[0], norm(slope(u)), jnp.ones(()))
        u, _ = jax.jit(minimise)(g, u, slope(u), bent, part)
        jax.effects_barrier()
    assert len(looked) < 10_000  # and not a quarter of a million


@pytest.mark.parametrize("seed", range(3))
def test_at_the_least_point_of_its_model_a_step_looks_for_no_better_one(seed):
    """Warm fits begin there: what is left of a slope is the rounding of the point itself."""
    rng = np.random.default_rng(seed)
    B = np.column_stack([rng.normal(size=(40, 4)), np.ones(40)])
    H, y, looked = jnp.asarray(B.T @ B / 40), 1e3 + rng.normal(size=40), []
    g = OnLeaves(watched(L1(1e-8), looked), ("coef",))
    as_point = lambda v: Tree(Coefficients(v[:-1], v[-1]))
    slope = lambda u: as_point(H @ ravel_pytree(u)[0] - B.T @ y / 40)
    u = as_point(jnp.zeros(5))
    for _ in range(3):
        looked.clear()
        bent = bend(H, ravel_pytree(slope(u))[0], norm(slope(u)), jnp.ones(()))
        u, _ = jax.jit(minimise)(g, u, slope(u), bent, 0.0)
        jax.effects_barrier()
    assert len(looked) < 100  # a turn takes seven or more, a run of gradient steps hundreds
