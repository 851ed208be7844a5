"""Targets: what sites tell of labels, one order of classes, and one code for each."""

import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.losses.targets import CLASSES, COUNTS, NUMBERS, TWO_CLASSES
from proxfl.tables import Table
from tests.sentences import said


def table_of(y, places=None):
    y = np.array(y) if isinstance(y[0], str) else np.array(y, float)
    return Table("a", "a.csv", "outcome", ("x1",), np.zeros((len(y), 1)), y, "", places=places)


def merge(target, sites):
    return target.merge([target.labels(site.y) for site in sites], "loss")


@pytest.mark.parametrize("values", [(0, 1), (-1, 1), (2.5, 7), ("no", "yes"), ("B", "M")])
def test_logistic_takes_any_two_values_and_codes_the_larger_as_one(values):
    low, high = values
    sites = [table_of([low, low]), table_of([high, low, high])]
    classes = merge(TWO_CLASSES, sites)
    assert classes == values and [type(c) for c in classes] == [type(v) for v in values]
    codes = [TWO_CLASSES.encode(site, classes, "logistic").tolist() for site in sites]
    assert codes == [[-1, -1], [1, -1, 1]]


def test_softmax_numbers_any_set_of_labels_in_order():
    sites = [table_of([10, 9]), table_of([2, 10])]
    classes = merge(CLASSES, sites)
    assert classes == (2, 9, 10)
    codes = CLASSES.encode(sites[0], classes, "softmax")
    assert codes.tolist() == [2, 1] and codes.dtype.kind == "i"
    np.testing.assert_array_equal(np.array(classes)[codes], sites[0].y)


def test_numbers_stay_as_they_are_and_tell_no_label():
    site = table_of([3.5, -1])
    assert NUMBERS.labels(site.y) == () == merge(NUMBERS, [site])
    np.testing.assert_array_equal(NUMBERS.encode(site, (), "squared"), site.y)


def test_targets_that_a_loss_cannot_take():
    assert "text at some sites" in said(CLASSES.merge, [(0, 1), ("a",)], "softmax")
    assert "has 3 different values" in said(TWO_CLASSES.merge, [(0, 1), (1, 2)], "logistic")
    assert "has one value at all sites" in said(CLASSES.merge, [(1,), (1,)], "softmax")
    words = said(NUMBERS.encode, table_of(["a"]), (), "huber")
    assert words.startswith("a.csv: the target 'outcome' is text and huber needs numbers")
    counts = lambda y, places=None: said(COUNTS.encode, table_of(y, places), (), "poisson")
    assert "'outcome' is below 0 in data row 3; poisson needs counts" in counts([0, 2.0, -1])
    assert "in data row 10" in counts([0, -1], np.array([0, 9]))
    strange = said(TWO_CLASSES.encode, table_of([0, 1, 2]), (0, 1), "logistic")
    assert "is none of the classes in data row 3" in strange
    text = said(TWO_CLASSES.encode, table_of(["a"]), (0, 1), "logistic")
    assert "'outcome' is text and" in text


@pytest.mark.parametrize("target", [NUMBERS, COUNTS, TWO_CLASSES, CLASSES], ids=type)
def test_what_is_encoded_is_accepted_and_of_the_shape_and_type_announced(target):
    site = table_of([0.0, 1.0, 1.0])
    y = target.encode(site, merge(target, [site]), "loss")
    told = target.encoded(3, 1)
    assert np.all(target.accepts(y)) and (y.shape, y.dtype) == (told.shape, told.dtype)


@pytest.mark.parametrize(
    ("target", "z", "y"),
    [(TWO_CLASSES, np.array([-1.0, 0.0, 2.0]), [-1.0, 1.0, 1.0]),
     (CLASSES, np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]), [0, 1, 1])],
    ids=["two", "several"],
)  # fmt: skip
def test_accuracy_counts_the_rows_whose_class_is_the_one_chosen(target, z, y):
    y = np.array(y)
    number = (y > 0).astype(int)
    right = target.scores["accuracy"](jnp.asarray(z), jnp.asarray(y))
    np.testing.assert_array_equal(right, target.predicted(z, None, (0, 1)) == number)
