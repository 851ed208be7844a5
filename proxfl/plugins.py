"""Losses and penalties of other packages, found by their entry points.

A package names, in the group "proxfl.plugins", each module that defines some; importing it is all.
"""

from functools import cache
from importlib.metadata import entry_points

from proxfl.errors import InputError


@cache
def load() -> None:
    """Import them all, once."""
    for entry in entry_points(group="proxfl.plugins"):
        try:
            entry.load()
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            raise InputError(
                f"the plug-in {entry.name!r} ({entry.value}) cannot be loaded: {error}; mend or "
                "remove its package."
            ) from error
