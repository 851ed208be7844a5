"""Flower is imported as for the tests of real sites."""

from tests.deploy import conftest  # noqa: F401
