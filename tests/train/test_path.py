"""Laws of a path and of its cross-validation."""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from proxfl.errors import InputError
from proxfl.report.path_figures import entered, figures
from proxfl.tables import Table
from proxfl.train import folds
from proxfl.train.choice import Choice
from proxfl.train.folds import deal, path_with_folds, scored, split_all
from proxfl.train.path import RegularisationPath, course_of, padded_size, ready
from proxfl.train.spec import Spec
from proxfl.train.train import train
from proxfl.train.walk import Course, walk

D, ROWS = 6, (20, 31, 14)
NAMES = tuple(f"x{j}" for j in range(D))
LOGISTIC = Spec(target="y", loss="logistic", l2=0.01, tol=1e-8)
SOFTMAX = Spec(target="y", loss="softmax", tol=1e-8, standardise=True)
SHORT = Choice(points=8, ratio=0.05, folds=3)


def tables(classes=2, seed=0):
    """Sites that differ in size and in distribution; features in very different units."""
    rng, made = np.random.default_rng(seed), []
    truth = rng.normal(size=(D, classes)) * (np.arange(D) < 3)[:, None]
    for i, rows in enumerate(ROWS):
        A = rng.normal(size=(rows, D)) + 0.5 * (i - 1)
        y = (A @ truth + rng.gumbel(size=(rows, classes))).argmax(axis=1).astype(float)
        made.append(Table(f"site {i}", "", "y", NAMES, A * 10.0 ** np.arange(-2, 4), y, ""))
    return made


def path(spec, tables, choice, weights=None):
    """A path by itself, without folds; on the grid of a choice, or through the weights given."""
    spec = spec.replace(**{choice.sweep: 1.0})
    sites = ready(spec, tables)
    course = course_of(sites.agreement, spec, choice)
    if weights:
        course = course._replace(points=len(weights), weights_of=lambda gradient: weights)
    found = walk([sites], course, lambda done: None)
    return RegularisationPath.of(spec, choice, sites.agreement, found)


@pytest.fixture(scope="module")
def walked():
    return path(LOGISTIC, tables(), SHORT)


@pytest.fixture(scope="module")
def validated():
    return path_with_folds(LOGISTIC, tables(), SHORT)[1]


def objective(spec, coef, intercept):
    """Of the pooled rows, from the formula."""
    A, y = (np.concatenate([getattr(t, name) for t in tables()]) for name in ("A", "y"))
    losses = np.logaddexp(0, -(2 * y - 1) * (A @ coef + intercept))
    return losses.mean() + spec.l1 * np.abs(coef).sum() + spec.l2 / 2 * (coef @ coef)


def test_a_path_begins_with_the_last_empty_model(walked):
    """A weight a little smaller than the first lets something in."""
    assert walked.nonzeros[0] == 0 and walked.converged.all()
    ratios = walked.weights[1:] / walked.weights[:-1]
    np.testing.assert_allclose(ratios, SHORT.ratio ** (1 / 7), rtol=1e-12)
    below = path(LOGISTIC, tables(), SHORT, weights=[walked.weights[0] * (1 - 1e-3)])
    assert below.nonzeros[0] > 0


def test_every_model_of_a_path_is_that_of_train_at_its_weight(walked):
    """A warm start changes the rounds, not the model."""
    for index in (1, 7):
        alone = train(walked.spec_at(index), tables())
        model = walked.models[index]
        assert walked.objective[index] == pytest.approx(alone.solution.objective, rel=1e-12)
        np.testing.assert_array_equal(model.coef != 0, alone.model.coef != 0)
        found = objective(walked.spec_at(index), model.coef, model.intercept)
        assert found == pytest.approx(walked.objective[index], rel=1e-12)
        assert walked.rounds[index] <= len(alone.records)


@pytest.mark.parametrize("algorithm", ["newton", "decoupled"])
def test_an_elastic_net_takes_both_weights_down_together(algorithm):
    """Whatever the units of features, and with a ridge beside it."""
    spec = LOGISTIC.replace(elastic_net=1.0, l1_ratio=0.25, algorithm=algorithm)
    found = path(spec, tables(), Choice(sweep="elastic_net", points=3, ratio=0.2))
    assert found.nonzeros[0] == 0 and found.nonzeros[-1] > 0
    for weight, least, model in zip(found.weights, found.objective, found.models, strict=True):
        apart = LOGISTIC.replace(l1=weight / 4, l2=LOGISTIC.l2 + 3 * weight / 4)
        assert objective(apart, model.coef, model.intercept) == pytest.approx(least, rel=1e-12)
        assert train(apart, tables()).solution.objective == pytest.approx(least, rel=1e-10)


def test_a_path_and_its_folds_share_their_exchanges(walked, validated):
    """As many as the longest of them takes, not as many as all; and the same models."""
    both, _ = path_with_folds(LOGISTIC, tables(), SHORT)
    np.testing.assert_allclose(both.objective, walked.objective, rtol=1e-12)
    assert both.traffic.exchanges < both.rounds.sum()
    dealt = deal(walked.spec, SHORT, tables())
    course = Course(walked.spec, SHORT.sweep, SHORT.points, lambda gradient: walked.weights)
    sets, held_out = split_all(walked.spec, walked.agreement, tables(), dealt)
    apart = walk(sets, course, lambda done: None)
    scores = scored(walked, tables(), dealt, sets, held_out, apart.found)
    np.testing.assert_allclose(scores.losses, validated.losses, rtol=1e-9)
    alone = walked.traffic.exchanges, apart.traffic.exchanges
    assert max(alone) <= both.traffic.exchanges < sum(alone)


def test_both_methods_find_the_same_path(walked, validated):
    other, scores = path_with_folds(LOGISTIC.replace(algorithm="decoupled"), tables(), SHORT)
    np.testing.assert_allclose(other.objective, walked.objective, rtol=1e-9)
    np.testing.assert_array_equal(other.coef != 0, walked.coef != 0)
    np.testing.assert_allclose(scores.losses, validated.losses, rtol=1e-5)
    assert other.traffic.exchanges > walked.traffic.exchanges


def test_the_weights_of_a_quadratic_loss_need_no_exchange_of_their_own():
    found, scores = path_with_folds(LOGISTIC.replace(loss="squared"), tables(), SHORT)
    assert found.converged.all() and found.rounds.max() <= 1
    assert found.traffic.exchanges + scores.traffic.exchanges <= 6


@pytest.mark.parametrize("key", ["group_weight", "nuclear"])
def test_any_weight_that_empties_a_model_may_be_swept(key):
    choice = SHORT.replace(sweep=key, points=3)
    found = path(SOFTMAX, tables(classes=3), choice)
    assert found.nonzeros[0] == 0 and found.nonzeros[1] > 0 and found.converged.all()
    assert found.spec_at(1).to_dict()[key] == found.weights[1]


def test_folds_share_out_all_rows_class_by_class(walked):
    dealt, counts = deal(LOGISTIC, SHORT, tables()), []
    for site, table in enumerate(tables()):
        times = np.sum([fold.out[site] for fold in dealt], axis=0)
        assert (times == 1).all()  # each row is left out once
        counts.append([[np.sum(table.y[f.out[site]] == label) for f in dealt] for label in (0, 1)])
    assert np.ptp(counts, axis=2).max() <= 1  # evenly, in every class of every site
    assert deal(LOGISTIC, SHORT, tables())[0].out[0].tolist() == dealt[0].out[0].tolist()


def test_folds_of_sites_leave_each_site_out_once():
    dealt = deal(LOGISTIC, SHORT.replace(by="sites"), tables())
    assert [fold.name for fold in dealt] == ["site 0", "site 1", "site 2"]
    for k, fold in enumerate(dealt):
        assert [out.all() for out in fold.out] == [out.any() for out in fold.out]
        assert [out.all() for out in fold.out] == [site == k for site in range(3)]


def left_out(found, fold, weight):
    """The score of one fold at one weight, the long way: train on some rows, score the others."""
    kept, held = [], []
    for table, out in zip(tables(), fold.out, strict=True):
        kept += [dataclasses.replace(table, A=table.A[~out], y=table.y[~out])] if any(~out) else []
        held += [(table.A[out], table.y[out])] if any(out) else []
    model = train(found.spec.replace(l1=weight), kept).model
    A, y = (np.concatenate([part[k] for part in held]) for k in (0, 1))
    z = A @ model.coef + model.intercept
    judged = np.mean((z > 0) == (y > 0)), roc_auc_score(y > 0, z)
    return np.logaddexp(0, -(2 * y - 1) * z).mean(), judged, model.coef != 0


@pytest.mark.parametrize("by", ["rows", "sites"])
def test_a_score_is_that_of_rows_the_model_has_not_seen(walked, validated, by):
    found, scores = walked, validated
    if by == "sites":
        found, scores = path_with_folds(LOGISTIC, tables(), SHORT.replace(by="sites"))
    fold = deal(found.spec, found.choice, tables())[1]
    loss, (accuracy, area), used = left_out(found, fold, float(found.weights[5]))
    assert scores.losses[1, 5] == pytest.approx(loss, rel=1e-6)
    assert scores.scores["accuracy"][1, 5] == pytest.approx(accuracy, rel=1e-12)
    assert scores.scores["auc"][1, 5] == pytest.approx(area, abs=5e-3)  # a few pairs tie in a cell
    np.testing.assert_array_equal(scores.selected[1, 5], used)
    assert scores.shares.sum() == pytest.approx(1.0, rel=1e-12)


def test_the_rules_choose_by_their_definition(validated):
    mean, error = validated.mean, validated.error
    best, chosen = validated.chosen("min"), validated.chosen("1se")
    assert mean[best] == mean.min() and chosen <= best
    assert mean[chosen] <= mean[best] + error[best]
    assert (mean[:chosen] > mean[best] + error[best]).all()
    assert ((0 <= validated.stability) & (validated.stability <= 1)).all()


def test_an_error_is_the_standard_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=(5, 3))
    found = folds.standard_error(np.full(5, 0.2), values)
    np.testing.assert_allclose(found, values.std(axis=0, ddof=1) / np.sqrt(5), rtol=1e-12)


def test_there_is_room_for_all_rows_and_not_for_many_more():
    for rows in (1, 127, 128, 129, 257, 1024, 1025, 5000, 100_001):
        assert rows <= padded_size(rows) <= max(128, 2 * rows if rows <= 1024 else 1.13 * rows)


def test_a_curve_shows_its_zeros_only_where_it_enters_or_leaves():
    nan = np.nan
    found = entered(np.array([0.0, 0, 0, 2, 3, 0, 0, 0, 1]))
    np.testing.assert_array_equal(found, [nan, nan, 0, 2, 3, 0, nan, 0, 1])


def test_figures_are_returned_and_name_what_they_show(walked, validated):
    drawn = figures(walked, validated)
    assert set(drawn) == {"coefficients", "cross-validation", "stability"}
    axes = drawn["stability"].axes[0]
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert set(shown) == {NAMES[j] for j in np.flatnonzero(validated.stability.any(axis=0))}
    assert len(drawn["cross-validation"].axes) == 3  # loss, accuracy and area
    assert drawn["coefficients"].axes[0].get_xlabel() == "l1 weight"


@pytest.mark.parametrize(
    ("spec", "choice", "many", "words"),
    [
        (LOGISTIC, Choice(by="sites"), False, "folds of sites need two sites or more"),
        (LOGISTIC, Choice(folds=32), True, "at most 31, the rows of the largest site, got 32"),
    ],
)
def test_folds_that_cannot_be_made_are_refused(spec, choice, many, words):
    with pytest.raises(InputError, match=words):
        deal(spec, choice, tables() if many else tables()[:1])


def test_a_path_without_a_beginning_is_refused():
    """With coef >= 0 and labels that only negative coefficients explain, the model stays empty."""
    A = np.linspace(0, 1, 20)[:, None]
    table = Table("a", "", "y", ("x",), A, (A[:, 0] < 0.5).astype(float), "")
    with pytest.raises(InputError, match="empty with any l1, even 0"):
        path(Spec(target="y", loss="logistic", nonneg=True), [table], SHORT)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("points", 1, "'points' must be a whole number from 2 to 10000, got 1"),
        ("ratio", 1.0, "'ratio' must be a number between 1e-12 and 1, got 1.0"),
        ("by", "columns", "'by' must be one of rows, sites, got 'columns'"),
        ("rule", "best", "'rule' must be one of 1se, min, got 'best'"),
        ("sweep", "l2", "'sweep' must be one of l1, group_weight, elastic_net, nuclear, got 'l2'"),
    ],
)
def test_a_choice_says_what_it_takes(key, value, words):
    with pytest.raises(InputError, match=words):
        Choice(**{key: value})
