"""Sites' data frames, by the names of the sites."""

from collections.abc import Mapping
from typing import Any

from proxfl.errors import InputError
from proxfl.tables.formats import quoted


def by_name(sites: Any) -> dict[str, Any]:
    """The sites' frames; those of a list are called by their places in it, from 1."""
    import pandas as pd

    if isinstance(sites, list | tuple):
        sites = {f"site {place}": frame for place, frame in enumerate(sites, 1)}
    if not isinstance(sites, Mapping) or not sites:
        raise InputError(
            f"sites must be data frames, in a dict by name or in a list, got {told(sites)}; for "
            "files there is 'proxfl train'."
        )
    frames = {str(name): frame for name, frame in sites.items()}
    if len(frames) < len(sites):
        raise InputError(
            f"two of the sites {quoted(list(map(str, sites)))} are called alike; rename one."
        )
    for name, frame in frames.items():
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"site {name!r} must be a pandas DataFrame, got {told(frame)}.")
    return frames


def told(value: Any) -> str:
    """What something is, without its content, which may be private."""
    empty = isinstance(value, Mapping | list | tuple) and not value
    return "none" if empty else f"a {type(value).__name__}"
