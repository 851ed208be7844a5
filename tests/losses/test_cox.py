"""Cox's loss is its definition, row by row; its slopes, dual, hazards and concordance are exact."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from statsmodels.duration.hazard_regression import PHReg

from proxfl import losses
from proxfl.losses import Cox
from proxfl.losses.scores.scorecards import Rows
from proxfl.losses.survival.concordance import concordance
from proxfl.losses.survival.recalibrated import SLOPES, derivatives, root

ROWS = 24
TIES = ("breslow", "efron")


def rows(seed=0, entries=False, few=True):
    """Scores, times of which many are equal, events, entries, and uneven weights with a zero."""
    rng = np.random.default_rng(seed)
    time = rng.integers(1, 8 if few else 1000, ROWS) + 1.0
    entry = np.floor(time * rng.uniform(0, 0.9, ROWS)) * (rng.random(ROWS) < 0.7)
    event = rng.random(ROWS) < 0.7
    return rng.normal(size=ROWS), time, event, entry if entries else None


def outcome(*about):
    return jax.tree.map(jnp.asarray, losses.outcome(*about))


def defined(ties, z, time, event, entry=None, weights=None):
    """The negative log partial likelihood per row, from a list of each event's risk set."""
    weights = np.full(len(z), 1 / len(z)) if weights is None else weights
    relative, entry = weights / weights.max(), np.full(len(z), -1.0) if entry is None else entry
    total = 0.0
    for t in np.unique(time[event]):
        tied = np.flatnonzero(event & (time == t))
        at_risk = (time >= t) & (entry < t)
        everyone = np.sum((relative * np.exp(z))[at_risk])
        leaving = np.sum((relative * np.exp(z))[tied])
        for place, i in enumerate(tied):
            gone = place / len(tied) * leaving if ties == "efron" else 0.0
            total += weights[i] * (np.log(everyone - gone) - z[i])
    return total


run = lambda name: jax.jit(lambda loss, *about: getattr(loss, name)(*about), static_argnums=0)
value, slopes, dual, hazard = map(run, ("at", "slopes", "dual", "hazard"))


@partial(jax.jit, static_argnums=0)
def bend(loss, z, y, w, v):
    """The second derivative times v, as Newton's method takes it: that of the slopes."""
    return jax.jvp(lambda z: loss.slopes(z, y, w), (z,), (v,))[1]


derivative = jax.jit(lambda loss, *about: jax.grad(loss.at)(*about), static_argnums=0)
second = jax.jit(lambda loss, *about: jax.jacfwd(jax.grad(loss.at))(*about), static_argnums=0)
concordant = jax.jit(concordance)


def evenly(z):
    return jnp.full(len(z), 1 / len(z))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("entries", [False, True])
def test_the_loss_is_its_definition(ties, entries):
    for seed in range(5):
        z, *about = rows(seed, entries)
        found = value(Cox(ties), jnp.asarray(z), outcome(*about), evenly(z))
        assert float(found) == pytest.approx(defined(ties, z, *about), rel=1e-13)


@pytest.mark.parametrize("ties", TIES)
def test_the_loss_is_that_of_statsmodels(ties):
    z, time, event, entry = rows(3, entries=True)
    entry = entry + 0.25  # an entry at the time of an event is too late here, and not so there
    model = PHReg(time, z[:, None], event.astype(int), entry=entry, ties=ties)
    found = value(Cox(ties), jnp.asarray(1.7 * z), outcome(time, event, entry), evenly(z))
    assert -ROWS * float(found) == pytest.approx(float(model.loglike(np.array([1.7]))), rel=1e-12)


def test_row_weights_are_repetitions_up_to_a_constant():
    z, time, event, _ = rows(1)
    times = np.random.default_rng(0).integers(0, 4, ROWS)
    copy = lambda a: np.repeat(a, times)
    weights = jnp.asarray(times / times.sum())
    found = lambda z: value(Cox(), jnp.asarray(z), outcome(time, event), weights)
    repeated = lambda z: defined("breslow", copy(z), copy(time), copy(event))
    moved = np.random.default_rng(1).normal(size=ROWS)
    assert float(found(z) - found(moved)) == pytest.approx(repeated(z) - repeated(moved), rel=1e-12)


CASES = list(itertools.product(TIES, [False, True]))


@pytest.mark.parametrize(("ties", "entries"), CASES)
def test_slopes_are_the_derivative_and_bend_is_theirs(ties, entries):
    z, *about = rows(2, entries)
    z, y, w = jnp.asarray(z), outcome(*about), evenly(z)
    loss = Cox(ties)
    np.testing.assert_allclose(slopes(loss, z, y, w), derivative(loss, z, y, w), atol=1e-14)
    curve = second(loss, z, y, w)
    products = jax.vmap(lambda v: bend(loss, z, y, w, v))(jnp.eye(ROWS))
    np.testing.assert_allclose(products, curve, atol=1e-14)
    assert np.linalg.eigvalsh(curve).min() > -1e-14  # convex
    np.testing.assert_allclose(curve @ jnp.ones(ROWS), 0, atol=1e-14)  # shifts change nothing


@pytest.mark.parametrize(("ties", "entries"), CASES)
@pytest.mark.parametrize("filling", [0.0, 1e30, -1e30, np.inf, np.nan])
def test_padding_and_rows_of_weight_zero_add_exactly_nothing(ties, entries, filling):
    z, *about = rows(4, entries)
    alone, loss = outcome(*about), Cox(ties)
    padded = jax.tree.map(lambda a: jnp.concatenate([a, jnp.repeat(a[:1], 7, axis=0)]), alone)
    more = jnp.concatenate([jnp.asarray(z), jnp.full(7, filling)])
    w = jnp.concatenate([evenly(z), jnp.zeros(7)])
    assert float(value(loss, more, padded, w)) == pytest.approx(
        float(value(loss, jnp.asarray(z), alone, evenly(z))), rel=1e-15
    )
    found = slopes(loss, more, padded, w)
    np.testing.assert_allclose(
        found[:ROWS], slopes(loss, jnp.asarray(z), alone, evenly(z)), atol=1e-16
    )
    assert not found[ROWS:].any()
    bent = bend(loss, more, padded, w, jnp.ones_like(more).at[0].set(2.0))
    assert np.isfinite(bent).all() and not bent[ROWS:].any()


@pytest.mark.parametrize("ties", TIES)
def test_scores_of_a_thousand_stay_finite(ties):
    z, *about = rows(5)
    z, y = jnp.asarray(1e3 * z), outcome(*about)
    for found in (value(Cox(ties), z, y, evenly(z)), slopes(Cox(ties), z, y, evenly(z))):
        assert np.isfinite(found).all()


@pytest.mark.parametrize(("ties", "entries"), CASES)
def test_the_dual_is_the_conjugate_and_scaled_slopes_have_a_bound(ties, entries):
    z, *about = rows(6, entries)
    loss, y, w = Cox(ties), outcome(*about), evenly(z)
    conjugate, u = dual(loss, jnp.asarray(z), y, w, jnp.asarray(1.0))
    f = lambda z: float(value(loss, jnp.asarray(z), y, w))
    assert float(conjugate) == pytest.approx(float(u @ z) - f(z), rel=1e-12)  # Fenchel's equality
    for scale in (0.9, 0.3):
        bound = float(dual(loss, jnp.asarray(z), y, w, jnp.asarray(scale))[0])
        pull = scale * np.asarray(u)
        below = lambda t, pull=pull: f(t) - pull @ t
        slope = lambda t, pull=pull: np.asarray(slopes(loss, jnp.asarray(t), y, w)) - pull
        least = minimize(below, z, jac=slope, tol=1e-12).fun
        assert bound >= -least - 1e-12 and bound <= 1e-12  # f >= 0 and so f*(0) <= 0


def test_hazards_are_breslows():
    z, time, event, _ = rows(7)
    about = (jnp.asarray(z), outcome(time, event), evenly(z))
    found = hazard(Cox(), *about, jnp.arange(9.0))
    for t, up_to in enumerate(found):
        steps = [1 / np.exp(z)[time >= s].sum() for s in time[event & (time <= t)]]
        assert float(up_to) == pytest.approx(sum(steps), rel=1e-12)


@pytest.mark.parametrize(("few", "entries"), [(ROWS, False), (ROWS, True), (16, True), (1, False)])
def test_concordance_counts_the_pairs_in_the_right_order(few, entries):
    z, time, event, entry = (a if a is None else a[:few] for a in rows(8, entries))
    z = z.round(1)  # some are equal
    weights = np.random.default_rng(0).integers(0, 4, few) / 3
    right = pairs = 0.0
    for i, j in itertools.permutations(range(few), 2):
        known = event[i] and (time[j] > time[i] or (time[j] == time[i] and not event[j]))
        if known and (entry is None or entry[j] < time[i]):
            both = weights[i] * weights[j]
            pairs += both
            right += both * (1.0 if z[i] > z[j] else 0.5 if z[i] == z[j] else 0.0)
    found = concordant(jnp.asarray(z), outcome(time, event, entry), jnp.asarray(weights))
    np.testing.assert_allclose(np.array(found), [right, pairs], rtol=1e-12, atol=1e-12)


def test_a_site_without_events_adds_nothing():
    z, time, _, _ = rows(9)
    y = outcome(time, np.zeros(ROWS))
    assert float(value(Cox(), jnp.asarray(z), y, evenly(z))) == 0.0
    assert not np.asarray(slopes(Cox(), jnp.asarray(z), y, evenly(z))).any()


@pytest.mark.parametrize("entries", [False, True])
def test_influence_is_the_second_derivative_in_a_rows_own_score(entries):
    z, *about = rows(10, entries)
    about = (jnp.asarray(z), outcome(*about), evenly(z))
    found = run("influence")(Cox(), *about)
    np.testing.assert_allclose(found, np.diag(second(Cox(), *about)), atol=1e-14)


def judged_by_sites(sites):
    """Scores and the calibration curve of several sites' rows, from their sums."""
    card = Cox.target.scorecard
    told = [card.sums(Rows(z, y, z, weight), 0.5) for z, y, weight in sites]
    total = jax.tree.map(lambda *arrays: np.sum(arrays, axis=0), *told)
    return card.scores(total), card.curves(total)["calibration"]


def of_sites(rows=(90, 60), size=0.8):
    """Rows of sites with hazards of their own, whose scores are twice too large."""
    rng, sites = np.random.default_rng(5), []
    for k, n in enumerate(rows):
        z = size * rng.normal(size=n)
        death, end = rng.exponential(3 * (k + 1) / np.exp(z)), rng.uniform(1, 9, n)
        sites.append((2 * z + 5, np.ceil(4 * np.minimum(death, end)), death < end))
    return sites


def test_the_slope_of_calibration_is_that_of_a_stratified_model_of_the_score():
    made = of_sites()
    found, _ = judged_by_sites([(z, losses.outcome(t, e), np.ones(len(z))) for z, t, e in made])
    z, time, event = (np.concatenate(parts) for parts in zip(*made, strict=True))
    strata = np.repeat(range(len(made)), [len(site[0]) for site in made])
    slope = PHReg(time, z[:, None], event, strata=strata, ties="breslow").fit().params[0]
    # On a cubic between slopes 1/16 apart, of a function that bends little there.
    assert found["calibration_slope"] == pytest.approx(slope, abs=1e-5)


def test_events_are_as_many_as_expected_overall_and_follow_the_score_if_it_is_right():
    made = of_sites()
    rows = [(z, losses.outcome(t, e), np.ones(len(z))) for z, t, e in made]
    _, curve = judged_by_sites(rows)
    total = lambda name: np.dot(curve[name], curve["rows"])
    assert sum(curve["rows"]) == sum(len(site[0]) for site in made)
    assert total("observed") == pytest.approx(sum(e.sum() for _, _, e in made))
    assert total("predicted") == pytest.approx(total("observed"), rel=1e-12)
    # Scores twice too large promise too much at the top and too little at the bottom.
    assert curve["predicted"][-1] > curve["observed"][-1]
    assert curve["predicted"][0] < curve["observed"][0]


def test_a_row_that_counts_twice_is_judged_as_two_rows():
    """Also its loss, so that draws with replacement can be set against the rows themselves."""
    (z, time, event), _ = of_sites()
    often = np.random.default_rng(0).integers(0, 4, len(z))
    drawn = np.repeat(np.arange(len(z)), often)
    total = jax.jit(lambda *about: Cox().of_rows(*about))
    once = total(z, outcome(time, event), often.astype(float))
    twice = total(z[drawn], outcome(time[drawn], event[drawn]), np.ones(len(drawn)))
    np.testing.assert_allclose(once, twice, rtol=1e-12)
    scores = judged_by_sites([(z, losses.outcome(time, event), often.astype(float))])
    again = judged_by_sites(
        [(z[drawn], losses.outcome(time[drawn], event[drawn]), np.ones(len(drawn)))]
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), scores, again)


@pytest.mark.parametrize("entries", [False, True])
def test_draws_of_rows_are_summed_as_those_rows_alone_would_be(entries):
    z, *about = rows(3, entries)
    y, card, ones = losses.outcome(*about), Cox.target.scorecard, np.ones(ROWS)
    often = np.random.default_rng(1).poisson(1, (3, ROWS)).astype(float)
    together = card.drawn(Rows(z, y, z, ones), often, 0.5)
    assert together.keys() == card.sums(Rows(z, y, z, ones), 0.5).keys() - card.only_of_curves
    for draw, weight in enumerate(often):
        drawn = np.repeat(np.arange(ROWS), weight.astype(int))
        again = losses.outcome(*(column if column is None else column[drawn] for column in about))
        alone = card.sums(Rows(z[drawn], again, z[drawn], np.ones(len(drawn))), 0.5)
        for name, sums in together.items():
            np.testing.assert_allclose(sums[draw], alone[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("entries", [False, True])
def test_derivatives_along_slopes_are_those_of_the_loss(entries):
    z, *about = rows(4, entries)
    y, w = losses.outcome(*about), np.random.default_rng(2).uniform(0.5, 2, ROWS)
    along = jax.jit(jax.vmap(lambda s: jax.grad(lambda s: Cox().at(s * z, y, jnp.asarray(w)))(s)))
    np.testing.assert_allclose(derivatives(z, y, w[None])[0], along(SLOPES), rtol=1e-10, atol=1e-12)


def test_scores_too_far_apart_for_their_exponentials_keep_the_slope_or_leave_it_unknown():
    z, time, event, _ = rows(6)
    near = root(SLOPES, derivatives(z, losses.outcome(time, event), np.ones((1, ROWS)))[0])
    assert -4 < near < 12
    for times in (30.0, 1e6, 1e300):
        found = derivatives(times * z, losses.outcome(time, event), np.ones((1, ROWS)))[0]
        assert np.isfinite(found).all() and (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
        # Its true slope is that of `z` by so many times.
        assert np.isnan(root(SLOPES, found)) or root(SLOPES, found) == pytest.approx(0, abs=0.25)
