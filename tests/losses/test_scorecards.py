"""Scores from sums are those of scikit-learn and statsmodels on the pooled rows."""

import jax
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn import metrics

from proxfl.losses import Poisson, Softmax, Squared
from proxfl.losses.scores.cells import CELLS, WIDTH
from proxfl.losses.scores.grouped import FEWEST, GROUPS, calibration_and_residuals, tenths
from proxfl.losses.scores.scorecards import CLASSES, MEANS, NUMBERS, TWO_CLASSES, Rows
from proxfl.losses.targets import probabilities

rng = np.random.default_rng(0)
ROWS = 700
SITES = np.array_split(np.arange(ROWS), [100, 130, 400])


def split_and_added(card, rows, threshold=0.5):
    """The sums of rows as told by four sites."""
    parts = [Rows(*(array[k] for array in rows)) for k in SITES]
    told = [card.sums(part, threshold) for part in parts]
    return jax.tree.map(lambda *arrays: np.sum(arrays, axis=0), *told)


def two_classes(size=2.0, shift=-1.0):
    z = shift + size * rng.normal(size=ROWS)
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-0.7 * z + 0.2)), 1.0, -1.0)
    mean = probabilities(np.stack([0 * z, z], axis=1))
    return Rows(z, y, mean, np.ones(ROWS))


@pytest.mark.parametrize("size", [0.02, 2.0, 15.0])
def test_scores_of_two_classes_are_scikit_learns(size):
    rows = two_classes(size, -0.5 * size)
    found = TWO_CLASSES.scores(split_and_added(TWO_CLASSES, rows, 0.3))
    truth, p = rows.y > 0, rows.mean[:, 1]
    called = p >= 0.3
    exact = {
        "log_loss": np.logaddexp(0, -rows.y * rows.z).mean(),
        "brier": metrics.brier_score_loss(truth, p),
        "accuracy": metrics.accuracy_score(truth, called),
        "sensitivity": metrics.recall_score(truth, called),
        "specificity": metrics.recall_score(~truth, ~called),
        "precision": metrics.precision_score(truth, called),
    }
    for name, value in exact.items():
        assert found[name] == pytest.approx(value, rel=1e-12), name
    if size < 10:  # beyond, scikit-learn clips
        assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, p), rel=1e-9)
    area = metrics.roc_auc_score(truth, rows.z)
    assert abs(found["auc"] - area) <= found["auc_resolution"] + 1e-12


def test_the_resolution_is_nought_where_no_cell_holds_both_classes():
    z = np.where(np.arange(ROWS) % 2, WIDTH, 4 * WIDTH) * np.arange(1, ROWS + 1)
    rows = two_classes()._replace(z=z)
    found = TWO_CLASSES.scores(split_and_added(TWO_CLASSES, rows))
    if found["auc_resolution"] == 0:
        assert found["auc"] == pytest.approx(metrics.roc_auc_score(rows.y > 0, z), rel=1e-12)
    all_in_one = rows._replace(z=np.full(ROWS, 0.5 * WIDTH))
    assert TWO_CLASSES.scores(split_and_added(TWO_CLASSES, all_in_one))["auc"] == 0.5


def test_calibration_is_that_of_a_logistic_regression():
    rows = two_classes()
    found = TWO_CLASSES.scores(split_and_added(TWO_CLASSES, rows))
    truth = (rows.y > 0).astype(float)
    binomial = sm.families.Binomial()
    slope = sm.GLM(truth, sm.add_constant(rows.z), family=binomial).fit().params[1]
    shift = sm.GLM(truth, np.ones((ROWS, 1)), family=binomial, offset=rows.z).fit().params[0]
    # Each cell stands for its rows by its middle, which moves a score by half a cell at most.
    assert found["calibration_slope"] == pytest.approx(slope, abs=WIDTH)
    assert found["calibration_intercept"] == pytest.approx(shift, abs=WIDTH)


def test_curves_are_scikit_learns_at_the_points_they_have():
    rows = two_classes()
    curves = TWO_CLASSES.curves(split_and_added(TWO_CLASSES, rows))
    truth, cells = rows.y > 0, np.floor(rows.z / WIDTH)
    fpr, tpr, _ = metrics.roc_curve(truth, cells, drop_intermediate=False)
    np.testing.assert_allclose(curves["roc"]["false_positive_rate"], fpr, atol=1e-12)
    np.testing.assert_allclose(curves["roc"]["true_positive_rate"], tpr, atol=1e-12)
    precision, recall, _ = metrics.precision_recall_curve(truth, cells)
    np.testing.assert_allclose(curves["precision_recall"]["precision"], precision[-2::-1])
    np.testing.assert_allclose(curves["precision_recall"]["recall"], recall[-2::-1])
    seen = curves["calibration"]
    weight = np.array(seen["rows"])
    assert weight.sum() == ROWS and len(weight) == 10 and weight.min() > 0.8 * ROWS / 10
    assert weight @ seen["observed"] == pytest.approx(truth.sum())
    # Half a cell from the middle at most, and a probability moves by a quarter of the log odds.
    assert weight @ seen["predicted"] == pytest.approx(rows.mean[:, 1].sum(), abs=ROWS * WIDTH / 8)
    table = metrics.confusion_matrix(truth, rows.mean[:, 1] >= 0.5)
    assert curves["confusion"]["positive"] == [table[1, 1], table[1, 0]]
    assert curves["confusion"]["negative"] == [table[0, 1], table[0, 0]]


def test_a_single_class_has_no_ranks():
    rows = two_classes()._replace(y=np.ones(ROWS))
    found = TWO_CLASSES.scores(split_and_added(TWO_CLASSES, rows))
    unknown = {name for name, value in found.items() if np.isnan(value)}
    assert {"auc", "specificity", "calibration_slope"} <= unknown
    assert TWO_CLASSES.curves(split_and_added(TWO_CLASSES, rows))["roc"]["true_positive_rate"] == []


def test_extreme_scores_fall_into_the_outer_cells():
    rows = two_classes()._replace(z=np.where(np.arange(ROWS) % 2, 1e9, -np.inf))
    sums = TWO_CLASSES.sums(rows._replace(z=np.clip(rows.z, -1e300, 1e9)), 0.5)
    assert sums["positives"].shape == (CELLS,)
    assert (sums["positives"] + sums["negatives"])[[0, -1]].sum() == ROWS


def test_scores_of_classes_are_scikit_learns():
    z = rng.normal(size=(ROWS, 4))
    p = Softmax.mean(z)
    y = np.array([rng.choice(4, p=row) for row in p]).astype(np.int32)
    sums = split_and_added(CLASSES, Rows(z, y, p, np.ones(ROWS)))
    found = CLASSES.scores(sums)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, p), rel=1e-10)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, p.argmax(axis=1)))
    assert found["brier"] == pytest.approx(((p - np.eye(4)[y]) ** 2).sum(axis=1).mean())
    area = metrics.roc_auc_score(y, p, multi_class="ovr", average="macro")
    assert abs(found["auc"] - area) <= found["auc_resolution"] + 1e-12
    table = metrics.confusion_matrix(y, p.argmax(axis=1))
    np.testing.assert_array_equal(sums["confusion"], table)


@pytest.mark.parametrize("loss", [Squared(), Poisson()], ids=lambda loss: loss.name)
def test_scores_of_numbers_are_scikit_learns(loss):
    z = rng.normal(size=ROWS)
    mean = loss.mean(z)
    y = rng.poisson(np.exp(z)).astype(float)
    found = NUMBERS.scores(split_and_added(NUMBERS, Rows(z, y, mean, np.ones(ROWS))))
    assert found["r2"] == pytest.approx(metrics.r2_score(y, mean), rel=1e-10)
    assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, mean), rel=1e-12)
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, mean), rel=1e-12)
    line = sm.OLS(y, sm.add_constant(mean)).fit().params
    assert found["calibration_intercept"] == pytest.approx(line[0], rel=1e-8)
    assert found["calibration_slope"] == pytest.approx(line[1], rel=1e-8)


def test_a_weight_of_two_is_a_row_twice():
    rows, twice = two_classes(), np.r_[np.arange(ROWS), np.arange(50)]
    weight = np.ones(ROWS) + (np.arange(ROWS) < 50)
    once = TWO_CLASSES.sums(rows._replace(weight=weight), 0.5)
    again = TWO_CLASSES.sums(Rows(*(array[twice] for array in rows)), 0.5)
    for name, array in once.items():
        np.testing.assert_allclose(array, again[name], rtol=1e-12, err_msg=name)


def test_draws_are_the_sums_of_their_rows_but_for_what_only_curves_are_of():
    z = rng.normal(size=(ROWS, 2))
    numbers = Rows(z, z + rng.normal(size=z.shape), z, np.ones(ROWS))
    of_classes = rng.normal(size=(ROWS, 3))
    y = rng.integers(3, size=ROWS).astype(np.int32)
    classes = Rows(of_classes, y, Softmax.mean(of_classes), np.ones(ROWS))
    often = rng.poisson(1, (3, ROWS)).astype(float)
    for card, held in ((NUMBERS, numbers), (TWO_CLASSES, two_classes()), (CLASSES, classes)):
        drawn = card.drawn(held, often, 0.4)
        for draw, weight in enumerate(often):
            alone = card.sums(held._replace(weight=weight), 0.4)
            assert drawn.keys() == alone.keys() - card.only_of_curves
            for name, sums in drawn.items():
                near = {"rtol": 1e-11, "atol": card.step / 2 if name in MEANS else 0.0}
                np.testing.assert_allclose(sums[draw], alone[name], **near, err_msg=name)
            card.scores({name: sums[draw] for name, sums in drawn.items()})  # it takes no more


def in_tenths(y, mean, weight=None):
    return tenths(y, mean, np.ones(len(y)) if weight is None else weight)


def test_tenths_of_numbers_are_those_of_pandas():
    mean = rng.normal(size=ROWS)
    y = 2 * mean + rng.normal(size=ROWS)
    table = pd.DataFrame({"y": y, "mean": mean, "squared": (y - mean) ** 2})
    groups = table.groupby(pd.qcut(mean, 10, labels=False))
    curves = calibration_and_residuals(in_tenths(y, mean))
    np.testing.assert_allclose(curves["calibration"]["predicted"], groups["mean"].mean())
    np.testing.assert_allclose(curves["calibration"]["observed"], groups["y"].mean())
    np.testing.assert_allclose(
        curves["residuals"]["mean_residual"], groups["y"].mean() - groups["mean"].mean()
    )
    np.testing.assert_allclose(curves["residuals"]["rms_residual"], groups["squared"].mean() ** 0.5)
    assert curves["calibration"]["rows"] == [70.0] * 10


@pytest.mark.parametrize("rows", [1, 19, 39, 40, 150, ROWS])
@pytest.mark.parametrize("values", [1, 3, 15, ROWS])
def test_no_group_of_a_site_has_few_rows_and_equal_predictions_stay_together(rows, values):
    mean = np.sort(rng.integers(values, size=rows)) * 1.5
    y = np.arange(rows) * 1.0  # rows of one prediction stand in the order of what was seen
    told = in_tenths(y, mean)
    counts = told[told[:, 0] > 0, 0]
    assert counts.sum() == rows and counts.min() >= min(FEWEST, rows) and len(counts) <= GROUPS
    np.testing.assert_allclose(told[:, 1:3].sum(axis=0), [mean.sum(), y.sum()])
    for end in ends(counts)[:-1]:
        assert mean[end - 1] < mean[end]
    order = rng.permutation(rows)
    blurred = mean[order] * (1 + 1e-13 * rng.normal(size=rows))
    np.testing.assert_allclose(in_tenths(y[order], blurred), told, rtol=1e-10, atol=1e-10)


def ends(counts):
    return np.cumsum(counts).astype(int)


def test_a_weight_of_two_is_a_row_twice_in_tenths_and_one_of_nought_is_none():
    y, mean = rng.normal(size=400), np.repeat(rng.normal(size=20), 20)
    weight = rng.integers(0, 3, 400).astype(float)
    twice = np.repeat(np.arange(400), weight.astype(int))
    np.testing.assert_allclose(
        in_tenths(y, mean, weight).sum(axis=0), in_tenths(y[twice], mean[twice]).sum(axis=0)
    )
    none = np.where(mean == mean.max(), 0.0, 1.0)
    np.testing.assert_allclose(in_tenths(y, mean, none), in_tenths(y[none > 0], mean[none > 0]))
    nothing = calibration_and_residuals(in_tenths(y, mean, 0 * weight))
    assert nothing["calibration"] == {"predicted": [], "observed": [], "rows": []}
