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


def hazard_of(told: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The times at which a site told its hazard, and the hazard: at 0 there is none."""
    known = np.array([True, *told["known"][1:]], bool)
    return np.array(told["times"])[known], np.array(told["hazard"])[known]


def chances(
    held: Mapping[str, Any], site: str, scores: np.ndarray, times: Sequence[float]
) -> np.ndarray:
    """The chance of each row to be without an event at each time, by the hazard of a site.

    Between two of the times at which it was told, the hazard is taken to grow evenly.
    """
    if site not in held["sites"]:
        known = ", ".join(held["sites"])
        raise InputError(f"the model has no hazard of a site {site!r}, only of {known}.")
    grid, hazard = hazard_of(held["sites"][site])
    beyond = [t for t in times if not 0 <= t <= grid[-1]]
    if beyond:
        told = f"site {site!r} tells its hazard up to {grid[-1]:.6g}"
        raise InputError(f"{told}, got time {beyond[0]:g}.")
    reached = np.interp(times, grid, hazard)
    return np.exp(-np.outer(np.exp(scores - held["score"]), reached))
