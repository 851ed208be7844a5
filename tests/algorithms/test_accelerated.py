"""Acceleration keeps the fixed points, costs no vector, and loses little where it does not help."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms.wrappers.accelerated import Accelerated, Past, anderson
from proxfl.algorithms.wrappers.accelerated_partial import AcceleratedPartial
from proxfl.data import Design, logistic
from proxfl.engine import measure
from proxfl.engine.messages import message_bytes, messages, one_of
from proxfl.engine.smoothness import mean_curvature_bound, smoothness
from proxfl.losses import Logistic
from proxfl.prox import L1
from tests import cases

rules = pytest.mark.parametrize("how", ["anderson", "nesterov"])


@pytest.fixture(scope="module")
def slow():
    """An ill-conditioned problem: its shards, smoothness and measure."""
    design = Design(clients=8, rows=40, features=15, condition=100.0, coef_shift=1.0)
    sites = logistic(design, nonzeros=4, seed=0).sites
    problem = px.Problem(g=L1(1e-3), x0=jnp.zeros(15), loss=Logistic())
    shards = px.shards_of(sites)
    L = float(smoothness(problem, shards, problem.x0, jax.random.key(0)))
    return problem, shards, L, {"optimality": px.optimality(problem, shards, 1 / L)}


def rounds_needed(algorithm, slow, level=1e-9, most=6000, **options):
    problem, shards, _, observe = slow
    result = px.simulate(
        algorithm,
        problem,
        shards,
        rounds=most,
        every=options.pop("every", 1),
        observe=observe,
        until={"optimality": level},
        **options,
    )
    return int(result.history["round"][-1]) if result.met else np.inf


@rules
@pytest.mark.parametrize("tau", [1, 4])
def test_it_reaches_the_optimum_in_far_fewer_rounds(slow, how, tau):
    L = slow[2]
    plain = px.Decoupled(1 / (4 * L * tau), 4.0, tau)
    assert 3 * rounds_needed(Accelerated(plain, how=how), slow) < rounds_needed(plain, slow)


@pytest.mark.parametrize("cohort", [None, 6])
def test_it_also_helps_when_only_some_clients_answer(slow, cohort):
    plain = px.DecoupledPartial(0.5 / slow[2])
    options = {"cohort": cohort, "every": 5}
    fast = rounds_needed(AcceleratedPartial(plain), slow, **options)
    assert 2 * fast < rounds_needed(plain, slow, **options)


@pytest.mark.parametrize("method", ["mime", "proxskip"])
def test_it_also_helps_methods_whose_server_holds_a_model(slow, method):
    eta = 0.25 / slow[2]
    plain = {"mime": px.Mime(eta, 1.0, 2, 0.0, "every step"), "proxskip": px.ProxSkip(eta, 2)}[
        method
    ]
    fast = rounds_needed(AcceleratedPartial(plain), slow, every=5)
    assert 2 * fast < rounds_needed(plain, slow, every=5)


@pytest.mark.parametrize("wrap", [Accelerated, AcceleratedPartial])
def test_a_memory_too_short_to_mix_or_undo_anything_is_refused(wrap):
    inner = px.Decoupled(0.1) if wrap is Accelerated else px.DecoupledPartial(0.1)
    with pytest.raises(ValueError, match="memory must be a whole number of at least 2, got 1"):
        wrap(inner, memory=1)


@rules
def test_one_vector_goes_up_and_one_down_beside_a_few_scalars(how):
    algorithm = Accelerated(px.Decoupled(0.1, 1.0, 2), memory=7, how=how)
    (exchange,) = messages(algorithm, cases.problem(), one_of(px.shards_of(cases.sites())))
    assert message_bytes(exchange.up) == 8 * cases.D
    assert message_bytes(exchange.down) == 8 * (cases.D + 7)


@rules
def test_corrections_still_average_to_zero(how):
    observe = {"correction": measure.MeanCorrection()}
    result = px.simulate(
        Accelerated(px.Decoupled(0.05, 1.5, 4), how=how),
        cases.problem(),
        cases.sites(),
        rounds=100,
        observe=observe,
    )
    assert result.history["correction"].max() < 1e-11


@rules
def test_with_minibatches_it_does_no_harm(how):
    """Noise makes mixing pointless; the safeguard must keep the plain method's neighbourhood."""
    problem, sites = cases.problem(batch=3), cases.sites()
    plain = px.Decoupled(0.02, 1.5, 4)
    options = dict(rounds=3000, every=10)
    ends = [
        np.median(px.simulate(a, problem, sites, **options).history["optimality"][-100:])
        for a in (plain, Accelerated(plain, how=how))
    ]
    assert ends[1] < 2 * ends[0]


def test_anderson_weights_sum_to_one_and_make_the_mixed_residual_least():
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(5, 9)) * np.geomspace(1, 1e-3, 5)[:, None]
    usable = np.array([True, True, False, True, True])
    past = Past(jnp.zeros((5, 9)), jnp.asarray(residuals), jnp.asarray(usable))
    weights = np.asarray(anderson(past))
    assert abs(weights.sum() - 1) < 1e-12 and weights[2] == 0
    kept = residuals[usable]
    # The same by eliminating the constraint: a = (1, 0, ...) + sum over differences.
    step, *_ = np.linalg.lstsq((kept[1:] - kept[0]).T, -kept[0], rcond=None)
    least = np.linalg.norm(kept[0] + step @ (kept[1:] - kept[0]))
    assert np.linalg.norm(weights @ residuals) <= least * (1 + 1e-6)


@rules
@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_once_at_the_optimum_it_stays_there(how, tau, seed):
    """Residuals are rounding then, or zero, and say nothing on where to go."""
    result = px.simulate(
        Accelerated(px.Decoupled(0.05, 1.5, tau), how=how),
        cases.least_squares(),
        cases.sites(seed=seed, labels=False),
        rounds=4000,
        every=1,
    )
    seen = result.history["optimality"]
    arrived = np.argmax(seen < 1e-12)
    assert arrived and seen[arrived:].max() < 1e-9


def proximal_gradient(units):
    """Algorithm 1 at tau = 1 on the least squares of the cases, with a step of so many 1/L."""
    problem, sites = cases.least_squares(), cases.sites(labels=False)
    made, shards = problem.normalised(), px.shards_of(sites)
    L = float(mean_curvature_bound(made, shards, made.x0, jax.random.key(0)))
    return px.Decoupled(units / L, 1.0, 1), problem, sites


def test_anderson_converges_with_steps_with_which_plain_rounds_diverge_and_stays():
    """Plain steps of a pause go astray: what they lose must not count against mixing."""
    plain, *case = proximal_gradient(2.2)
    seen = lambda a: px.simulate(a, *case, rounds=600, every=1).history["optimality"]
    fast = seen(Accelerated(plain))
    arrived = np.argmax(fast < 1e-9)
    assert arrived and fast[arrived:].max() < 1e-8 and seen(plain)[-1] > 1


def test_nesterov_loses_nothing_where_plain_steps_overstep():
    plain, *case = proximal_gradient(1.9)
    needed = lambda a: px.simulate(
        a, *case, rounds=1000, every=1, until={"optimality": 1e-9}
    ).history["round"][-1]
    assert needed(Accelerated(plain, how="nesterov")) <= needed(plain)
