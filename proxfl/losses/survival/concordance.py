"""Harrell's concordance: whether rows of higher scores have their event first.

A pair is compared if one of its rows is known to have its event first: then the other is observed
beyond that time. For each event those are the first so many rows in the order of time, the latest
first, without the first so many in the order of entry. How many of the first rows in an order have
a lower score is counted for all events at once, bit by bit of the ranks of scores, in a wavelet
matrix (Claude, Navarro, Ordonez 2015): the work grows as rows times the logarithm of their number.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from proxfl.losses.survival.outcomes import Outcome

Weights = Float[Array, " rows"]
Places = Int[Array, " rows"]


def concordance(z: Float[Array, " rows"], y: Outcome, weights: Weights) -> tuple[Any, Any]:
    """Of the pairs that are compared, how many have the event first at the higher score, and how
    many there are; a tie in the score counts half."""
    order = jnp.lexsort((y.event, -y.time))
    at_or_after, after = number_from(y.time, y.time, "left"), number_from(y.time, y.time, "right")
    events = up_to(y.event[order].astype(jnp.int32))
    ahead = at_or_after - events[at_or_after] + events[after]
    right, pairs = lower(z, weights, order, ahead)
    if y.entered is not None:
        # Who enters later than an event is observed beyond it, and is among those ahead.
        late = number_from(y.entered.time, y.time, "left")
        less = lower(z, weights, jnp.argsort(-y.entered.time), late)
        right, pairs = right - less[0], pairs - less[1]
    own = jnp.where(y.event, weights, 0.0)
    return own @ right, own @ pairs


def number_from(values: Any, bounds: Any, side: str) -> Places:
    """How many of the values are at or beyond each bound; with "right", beyond it."""
    below = jnp.searchsorted(jnp.sort(values), bounds, side=side)
    return (values.shape[0] - below).astype(jnp.int32)


def up_to(values: Any) -> Any:
    """The sums of the first 0, 1, ... values."""
    return jnp.pad(jnp.cumsum(values), (1, 0))


def lower(z: Any, weights: Weights, order: Places, first: Places) -> tuple[Weights, Weights]:
    """For each row, the weight of those with a lower score, ties half, among the first so many rows
    in an order, and of all of these."""
    places, ascending = jnp.arange(z.shape[0], dtype=jnp.int32), jnp.sort(z)
    rank = jnp.zeros_like(places).at[jnp.argsort(z)].set(places)
    bounds = [jnp.searchsorted(ascending, z, side=side) for side in ("left", "right")]
    held, below = weights[order], jnp.stack(bounds).astype(jnp.int32)
    return jnp.mean(ranked_below(rank[order], held, first, below), axis=0), up_to(held)[first]


def ranked_below(rank: Places, weights: Weights, first: Places, below: Any) -> Any:
    """The weight of those among the first so many that have a rank below a bound."""
    bits, place = rank.shape[0].bit_length(), jnp.arange(rank.shape[0], dtype=jnp.int32)

    def level(step, state):
        """Parts rows by a bit of their ranks: those without it come first, each in its order."""
        rank, weights, low, high, found = state
        has, asks = ((numbers >> (bits - 1 - step)) & 1 > 0 for numbers in (rank, below))
        fewer, lighter = up_to((~has).astype(jnp.int32)), up_to(jnp.where(has, 0.0, weights))
        found = found + jnp.where(asks, lighter[high] - lighter[low], 0.0)
        onward = lambda end: jnp.where(asks, fewer[-1] + end - fewer[end], fewer[end])
        to = jnp.where(has, fewer[-1] + place - fewer[:-1], fewer[:-1])
        move = lambda values: jnp.zeros_like(values).at[to].set(values)
        return move(rank), move(weights), onward(low), onward(high), found

    none = jnp.zeros_like(below), jnp.broadcast_to(first, below.shape)
    start = (rank, weights, *none, jnp.zeros(below.shape, weights.dtype))
    return jax.lax.fori_loop(0, bits, level, start)[-1]
