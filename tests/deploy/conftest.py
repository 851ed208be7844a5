"""Flower is imported once, past the warnings that are its own and its dependencies'.

And no report has pictures.
"""

import warnings

import pytest

from tests.undrawn import undrawn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.clientapp  # noqa: F401
    import flwr.serverapp  # noqa: F401
    import flwr.supercore.inflatable.inflatable_utils  # noqa: F401


@pytest.fixture(scope="package", autouse=True)
def no_pictures():
    with undrawn():
        yield
