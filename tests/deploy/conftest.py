"""Flower is imported once, past the warnings that are its own and its dependencies'."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.clientapp  # noqa: F401
    import flwr.serverapp  # noqa: F401
    import flwr.supercore.inflatable.inflatable_utils  # noqa: F401
