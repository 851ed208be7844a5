"""Laws of partitions: disjoint, complete, nobody empty; and of the sizes they are cut to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxfl.data.partition import (
    by_label,
    by_size,
    dirichlet,
    hand_out,
    iid,
    lognormal,
    paper_mnist,
    power_law,
)

LABELS = np.random.default_rng(0).integers(0, 10, 4000)
PARTITIONS = {
    "iid": lambda seed: iid(4000, 7, seed=seed),
    "by_size": lambda seed: by_size(4000, power_law(4000, 7, 1.5), seed=seed),
    "by_label": lambda seed: by_label(LABELS, 7),
    "by_label, many": lambda seed: by_label(LABELS, 23),
    "dirichlet": lambda seed: dirichlet(LABELS, 7, 0.3, seed=seed),
    "paper_mnist": lambda seed: paper_mnist(LABELS, seed=seed),
    "paper_mnist, few": lambda seed: paper_mnist(LABELS, 4, seed=seed),
    "paper_mnist, many": lambda seed: paper_mnist(LABELS, 25, seed=seed),
}


def equal(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("make", PARTITIONS.values(), ids=PARTITIONS)
def test_parts_are_disjoint_cover_everything_and_are_never_empty(make):
    parts = make(0)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(4000))
    assert min(map(len, parts)) > 0
    assert all(np.all(np.diff(part) > 0) for part in parts)


@pytest.mark.parametrize("make", PARTITIONS.values(), ids=PARTITIONS)
def test_the_same_seed_gives_the_same_parts(make):
    assert equal(make(3), make(3))


@pytest.mark.parametrize("name", [name for name in PARTITIONS if "by_label" not in name])
def test_another_seed_gives_other_parts(name):
    assert not equal(PARTITIONS[name](3), PARTITIONS[name](4))


@given(
    labels=st.lists(st.integers(0, 4), min_size=12, max_size=60),
    clients=st.integers(1, 6),
    seed=st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_any_labels_are_partitioned(labels, clients, seed):
    labels = np.array(labels)
    for parts in (
        iid(len(labels), clients, seed=seed),
        dirichlet(labels, clients, 5.0, seed=seed),
        paper_mnist(labels, clients, seed=seed),
    ):
        assert len(parts) == clients and min(map(len, parts)) > 0
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))


@given(total=st.integers(1, 5000), data=st.data(), exponent=st.floats(0, 30))
@settings(max_examples=50, deadline=None)
def test_power_law_sizes_sum_to_the_total_and_never_rise(total, data, exponent):
    clients = data.draw(st.integers(1, min(total, 50)))
    sizes = power_law(total, clients, exponent)
    assert sum(sizes) == total and len(sizes) == clients
    assert min(sizes) >= 1 and sizes == sorted(sizes, reverse=True)


def test_power_law_of_exponent_zero_is_even():
    assert set(power_law(100, 7, 0.0)) == {14, 15}


def test_lognormal_sizes_start_at_fifty_and_repeat_with_the_seed():
    sizes = lognormal(2000, seed=1)
    assert sizes == lognormal(2000, seed=1) and min(sizes) >= 50
    assert abs(np.log(np.median(sizes) - 50) - 4) < 0.3


def test_by_size_gives_the_sizes_in_order():
    assert [len(part) for part in by_size(10, [5, 1, 4], seed=0)] == [5, 1, 4]


def test_iid_parts_differ_in_size_by_one_at_most():
    sizes = [len(part) for part in iid(100, 7, seed=0)]
    assert max(sizes) - min(sizes) == 1


@pytest.mark.parametrize("clients, most", [(10, 1), (5, 2), (7, 2), (23, 1)])
def test_by_label_gives_each_client_as_few_labels_as_can_be(clients, most):
    assert max(len(np.unique(LABELS[part])) for part in by_label(LABELS, clients)) == most


def skew(parts):
    """The mean total variation between a client's mix of labels and everyone's."""
    mix = lambda labels: np.bincount(labels, minlength=10) / len(labels)
    return np.mean([np.abs(mix(LABELS[part]) - mix(LABELS)).sum() / 2 for part in parts])


def test_a_smaller_concentration_skews_labels_more():
    grid = [0.05, 0.3, 2.0, 1000.0]
    found = [np.mean([skew(dirichlet(LABELS, 8, c, seed=s)) for s in range(5)]) for c in grid]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.6 and found[-1] < 0.1


def test_dirichlet_leaves_every_client_at_least_what_is_asked():
    assert min(map(len, dirichlet(LABELS, 10, 0.1, least=40, seed=0))) >= 40


def test_paper_mnist_gives_half_evenly_and_half_by_label():
    """At MNIST's size: 3000 each at random, and half of all examples of its label besides."""
    labels = np.repeat(np.arange(10), 6000)
    parts = paper_mnist(labels, seed=0)
    for client, part in enumerate(parts):
        others = part[labels[part] != client]
        own = len(part) - len(others)
        assert abs(len(part) - 6000) < 5 * np.sqrt(6000 / 4)
        assert abs(len(others) - 2700) < 5 * np.sqrt(3000 * 0.09)
        assert own > 3000


def test_paper_mnist_follows_the_order_of_the_labels_not_their_values():
    names = np.array([3, 7, 20, 21, 22, 40, 41, 50, 60, 99])
    assert equal(paper_mnist(LABELS, seed=0), paper_mnist(names[LABELS], seed=0))


def test_hand_out_gives_each_client_its_rows():
    A, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    [(B, z), _] = hand_out(A, y, [np.array([1, 3]), np.array([0, 2])])
    np.testing.assert_array_equal(B, [[2.0, 3.0], [6.0, 7.0]])
    np.testing.assert_array_equal(z, [1.0, 3.0])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: iid(5, 6, seed=0), "6 clients need 6 examples or more, got 5."),
        (lambda: iid(5, 0, seed=0), "clients must be at least 1, got 0."),
        (lambda: by_size(5, [2, 2], seed=0), "sum to the 5 examples, got a sum of 4."),
        (lambda: by_size(5, [5, 0], seed=0), "at least 1, got [5, 0]."),
        (lambda: by_label(np.array([0, 1, 1, 1]), 4), "use fewer clients."),
        (lambda: by_label(np.eye(3), 3), "one axis, got shape (3, 3)."),
        (lambda: dirichlet(LABELS, 5, 0.0, seed=0), "positive and finite, got 0.0."),
        (lambda: dirichlet(LABELS, 5, 1.0, least=0, seed=0), "least must be at least 1, got 0."),
        (lambda: dirichlet(LABELS, 400, 1e-3, seed=0), "raise concentration or use fewer clients."),
        (lambda: paper_mnist(LABELS[:9], 5, seed=0), "5 clients need 10 examples or more, got 9."),
        (lambda: power_law(3, 4, 1.0), "between 1 and the 3 rows, got 4."),
        (lambda: power_law(3, 2, -1.0), "exponent must be non-negative and finite, got -1.0."),
    ],
)
def test_bad_arguments_get_one_clear_sentence(call, words):
    with pytest.raises(ValueError) as error:
        call()
    sentence = str(error.value)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence
