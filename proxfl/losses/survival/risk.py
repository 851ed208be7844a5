"""Risk sets: with whom each event of a site is compared."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from proxfl.losses.survival.outcomes import NOTHING, Outcome, in_units

Row = Float[Array, " rows"]


class Risk(NamedTuple):
    """What each row's event, if it has one, is compared with; logs of sums of exp(z)."""

    own: Row  # of the row itself, with its weight
    everyone: Row  # of all rows at risk at its time
    share: Row  # of the events at its time in that sum
    compared: Row  # S_i: of all rows at risk, less what has left


def risk_of(z: Row, y: Outcome, weights: Row, tied: Row | None = None) -> Risk:
    """With ties as by Breslow, or as by Efron if it is said which share of them comes before."""
    there, places = weights > 0, z.shape[0]
    own = jnp.where(there, jnp.where(there, z, 0.0) + log(in_units(weights)), NOTHING)
    everyone = running(own, y.rank, there)[y.last]
    if y.entered is not None:
        waiting = running(own, y.entered.rank, there)
        waiting = jnp.where(y.entered.later > 0, waiting[y.entered.later - 1], NOTHING)
        everyone = everyone + jnp.log1p(-jnp.exp(waiting - everyone))
    if tied is None:
        return Risk(own, everyone, jnp.zeros_like(own), everyone)
    events = jnp.where(y.event & there, jnp.exp(own - everyone), 0.0)
    share = jax.ops.segment_sum(events, y.last, places)[y.last]
    return Risk(own, everyone, share, everyone + jnp.log1p(-tied * share))


def expected(risk: Risk, y: Outcome, events: Row) -> Row:
    """The events that each row was expected to have: exp(z) times the sum of w_i / S_i while it
    was at risk."""
    happened = events > 0
    rate = jnp.where(happened, log(events) - risk.compared, NOTHING)
    since = jnp.append(running(rate, y.rank, happened, reverse=True), NOTHING)
    while_there = jnp.exp(risk.own + since[y.first])
    if y.entered is None:
        return while_there
    return while_there - jnp.exp(risk.own + since[y.entered.before])


def running(values: Row, rank: Any, there: Any, reverse: bool = False) -> Row:
    """The log of the sum of exp(values) over the first places, up to each, of rows there."""
    places = values.shape[0]
    placed = jnp.full(places, NOTHING, values.dtype)
    placed = placed.at[jnp.where(there, rank, places)].set(values, mode="drop")
    most, least = placed.max(), jnp.where(placed > NOTHING, placed, jnp.inf).min()
    careful = lambda v: jax.lax.cumlogsumexp(v, reverse=reverse)
    narrow = -0.8 * jnp.log(jnp.finfo(values.dtype).tiny)  # ratios that its numbers can hold
    return jax.lax.cond(most - least < narrow, lambda v: summed(v, most, reverse), careful, placed)


def summed(logs: Row, most: Any, reverse: bool) -> Row:
    """The same by sums of the numbers themselves, ten times as fast where none underflows.

    No sum loses digits to a larger one after it, since all are of positive numbers.
    """
    most = jax.lax.stop_gradient(most)
    sums = jax.lax.cumsum(jnp.exp(logs - most), reverse=reverse)
    return jnp.where(sums > 0, most + log(sums), NOTHING)


def log(weights: Row) -> Row:
    return jnp.log(jnp.where(weights > 0, weights, 1.0))
