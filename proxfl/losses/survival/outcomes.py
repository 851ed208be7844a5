"""Times until an event, some of them censored, and where each stands among those of its site."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

NOTHING = -1e30  # the log of 0, with derivatives that are numbers


class Entered(NamedTuple):
    """When each row came under observation, and where that stands among all."""

    time: Float[Array, " rows"]
    rank: Int[Array, " rows"]  # its place, the latest entry first
    later: Int[Array, " rows"]  # how many rows enter at its time or later
    before: Int[Array, " rows"]  # how many rows have a later time than its entry


class Outcome(NamedTuple):
    """Times, and where each stands among those of its site, the latest first.

    The places are those of the site's own rows, so an outcome is made of all of them at once.
    """

    time: Float[Array, " rows"]
    event: Bool[Array, " rows"]  # whether something happened then, or only the observation ended
    rank: Int[Array, " rows"]  # its place
    first: Int[Array, " rows"]  # the first place of its time
    last: Int[Array, " rows"]  # the last place of its time: the first ones up to it are at risk
    tied: Float[Array, " rows"]  # the share of events at its time that come before this one
    entered: Entered | None = None  # all were there from the start, if None


def outcome(time: Any, event: Any, entry: Any = None) -> Outcome:
    """The outcome of one site's rows: their times, whether an event ended them, their entries."""
    time, event = np.asarray(time, np.float64), np.asarray(event).astype(bool)
    rows, ascending = len(time), np.sort(time)
    order = np.lexsort((np.arange(rows), -time))
    at_or_after = lambda t: rows - np.searchsorted(ascending, t, side="left")
    after = lambda t: rows - np.searchsorted(ascending, t, side="right")
    first, last = after(time), at_or_after(time) - 1
    events = np.zeros(rows + 1, int)
    events[1:] = np.cumsum(event[order])
    rank = inverse(order)
    earlier, tied = events[rank] - events[first], events[last + 1] - events[first]
    share = np.where(event, earlier / np.maximum(tied, 1), 0.0)
    places = (rank, first, last)
    entered = None
    if entry is not None:
        entry = np.asarray(entry, np.float64)
        waiting = rows - np.searchsorted(np.sort(entry), time, side="left")
        places_in = (inverse(np.argsort(-entry)), waiting, after(entry))
        entered = Entered(entry, *map(whole, places_in))  # type: ignore[arg-type]
    return Outcome(time, event, *map(whole, places), share, entered)  # type: ignore[arg-type]


def inverse(order: np.ndarray) -> np.ndarray:
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return rank


def whole(places: np.ndarray) -> Any:
    return places.astype(np.int32)


def at_risk(y: Outcome, real: Bool[Array, " rows"], times: Float[Array, " times"]) -> Any:
    """How many rows are under observation at each time."""
    there = real[None, :] & (y.time[None, :] >= times[:, None])
    if y.entered is not None:
        there &= y.entered.time[None, :] < times[:, None]
    return jnp.sum(there, axis=1)


def in_units(weights: Float[Array, " rows"]) -> Float[Array, " rows"]:
    """Weights as multiples of the largest: 1 for every row, where rows count the same."""
    most = jnp.max(weights)
    return weights / jnp.where(most > 0, most, 1.0)
