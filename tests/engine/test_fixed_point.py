"""Sums of fixed-point numbers are exact, in any order, and the same in NumPy and in a program."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxfl.engine import fixed_point

# Within the limit, so that 64 of them cannot wrap around.
numbers = st.floats(-(2.0**80), 2.0**80) | st.floats(-1.0, 1.0) | st.sampled_from([0.0, -0.0])


def as_integer(words) -> int:
    low, high = (int(word) for word in np.asarray(words))
    whole = low + (high << 64)
    return whole - (1 << 128) if whole >> 127 else whole


def nearest(value: float) -> int:
    return round(Fraction(value) * 2**40)  # Python rounds ties of fractions to even


@settings(deadline=None)
@given(st.lists(numbers, min_size=1, max_size=20), st.randoms())
def test_a_sum_is_that_of_the_rounded_numbers_in_any_order(values, chance):
    words = fixed_point.encode(np.array(values))
    order = list(range(len(values)))
    chance.shuffle(order)
    total = np.zeros((1, 2), np.uint64)
    for k in order:
        total = fixed_point.add(total, words[k : k + 1])
    assert as_integer(total[0]) == sum(map(nearest, values))


@settings(deadline=None)
@given(numbers)
def test_a_number_comes_back_to_half_a_step(value):
    back = fixed_point.decode(fixed_point.encode(np.array([value]))).item()
    assert abs(back - value) <= fixed_point.STEP / 2 + np.finfo(float).eps * abs(value)


@settings(deadline=None)
@given(numbers)
def test_a_number_and_its_negative_cancel(value):
    words = fixed_point.encode(np.array([value, -value]))
    assert not fixed_point.add(words[:1], words[1:]).any()
    assert (fixed_point.negate(words[:1]) == words[1:]).all()


def test_a_program_computes_the_same_bits():
    rng = np.random.default_rng(0)
    array = rng.normal(size=200) * 2.0 ** rng.integers(-60, 80, 200)
    words = fixed_point.encode(array)
    assert (np.asarray(fixed_point.encode(jnp.asarray(array))) == words).all()
    total = fixed_point.add(words[:100], words[100:])
    held = jnp.asarray(words)
    assert (np.asarray(fixed_point.add(held[:100], held[100:])) == total).all()
    found = np.asarray(fixed_point.decode(held))
    assert found.tobytes() == fixed_point.decode(words).tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**80 * 1.01])
def test_what_cannot_be_encoded_is_known(value):
    assert not fixed_point.fits(np.array([value])).any()
