"""What sites told of a survival model, read: concordance, and chances to be without an event."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from proxfl.errors import InputError


def concordance(sites: Iterable[Mapping[str, Any]]) -> tuple[float | None, float]:
    """The share of pairs in the right order over some sites, and the pairs; None if there are none.

    Pairs are within sites.
    """
    told = list(sites)
    right, pairs = (sum(site[part] for site in told) for part in ("right", "pairs"))
    return (right / pairs if pairs else None), pairs


def chances(
    held: Mapping[str, Any], site: str, scores: np.ndarray, times: Sequence[float]
) -> np.ndarray:
    """The chance of each row to be without an event at each time, by the hazard of a site."""
    if site not in held["sites"]:
        known = ", ".join(held["sites"])
        raise InputError(f"the model has no hazard of a site {site!r}, only of {known}.")
    told = held["sites"][site]
    known = np.array(told["known"], bool)
    grid, hazard = np.array(told["times"])[known], np.array(told["hazard"])[known]
    beyond = [t for t in times if not 0 <= t <= grid.max(initial=0.0)]
    if beyond:
        most = f"{grid.max(initial=0.0):.6g}"
        raise InputError(f"site {site!r} tells its hazard up to {most}, got time {beyond[0]:g}.")
    reached = hazard[np.searchsorted(grid, times, side="right") - 1]
    return np.exp(-np.outer(np.exp(scores - held["score"]), reached))
