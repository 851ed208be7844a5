"""The types of the package are checked in all tests: of arguments, of fields, and axes by name."""

import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.options.option import by_key
from proxfl.train.drivers.model_step import bend
from proxfl.train.model import Model


def test_an_argument_of_another_type_is_an_error():
    with pytest.raises(TypeError, match="by_key"):
        by_key(3)


def test_so_is_a_field():
    with pytest.raises(TypeError, match="features"):
        Model("squared", ["age"], (), np.zeros(1), np.zeros(()))


def test_so_are_axes_of_one_name_and_two_lengths():
    number = jnp.ones(())
    bend(jnp.eye(2), jnp.ones(2), number, number)
    with pytest.raises(TypeError, match="gradient"):
        bend(jnp.eye(2), jnp.ones(3), number, number)
