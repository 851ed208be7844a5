"""Cox's partial likelihood, each site being a stratum with risk sets of its own.

An event of row i, with weight w_i, adds w_i (log S_i - z_i) to the loss of a site, where S_i sums
exp(z_j) over the rows j that are then at risk. Weights sum to 1 at a site: without row weights the
loss is the negative log partial likelihood per row, and sites weighted by their rows have,
together, that of the stratified model divided by all rows. Row weights also multiply exp(z_j),
relative to the largest, which only adds a constant.

Events at one time are in each other's risk sets (Breslow), or those of them that come before, in
any order, have left it by the share of events that they are (Efron): S_i is then the sum over the
risk set less `tied` times that over the events.

The loss is a sum of log S_i, and so its dual one of entropies: of the distributions
q_i = exp(z) / S_i over the risk sets. Slopes scaled by t belong to t q_i + (1 - t) e_i, which gives
a bound on the conjugate, exact for t = 1.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Float

from proxfl.errors import InputError
from proxfl.losses.linear import Linear, setting
from proxfl.losses.rowwise import counted
from proxfl.losses.survival.concordance import concordance
from proxfl.losses.survival.outcomes import Outcome, at_risk, in_units
from proxfl.losses.survival.risk import Risk, Row, expected, risk_of
from proxfl.losses.survival.target import SURVIVAL
from proxfl.options.kinds import one_of

# A site tells its curve at so many times, evenly spaced up to so many times its mean; and where
# fewer rows than these are under observation, that it does not tell.
POINTS, SPAN, FEWEST = 61, 3.0, 5


class Cox(Linear):
    """The negative log partial likelihood per row, stratified by site."""

    ties: str = setting(
        one_of("breslow", "efron"), "how events at the same time count", default="breslow"
    )

    name = "cox"
    formula = (
        "log(sum of exp(z) over the rows of the site at risk) - z at an event, 0 elsewhere; ties "
        "as by {ties}"
    )
    curvature = math.inf  # a row may be in all risk sets
    convex = True
    couples_rows = True
    has_dual = True
    likelihood = "partial"
    ratio = "hazard ratio"
    has_survival = True
    takes_intercept = False
    ignores_shifts = True
    target = SURVIVAL

    def refuse_counts(self, given):
        if given and self.ties == "efron":
            raise InputError("ties by efron are not known with row weights; use breslow.")

    def risk(self, z: Row, y: Outcome, weights: Row) -> Risk:
        return risk_of(z, y, weights, self.tied(y))

    def tied(self, y: Outcome) -> Row | None:
        return {"breslow": None, "efron": y.tied}[self.ties]

    def at(self, z, y, weights):
        risk, events = self.risk(z, y, weights), jnp.where(y.event, weights, 0.0)
        return jnp.sum(counted(events, risk.compared - z))

    def slopes(self, z, y, weights):
        risk, events = self.risk(z, y, weights), jnp.where(y.event, weights, 0.0)
        pull = expected(risk, y, events)
        tied = self.tied(y)
        if tied is not None:
            left = counted(events, tied / (1 - tied * risk.share))
            left = jax.ops.segment_sum(left, y.last, z.shape[0])[y.last]
            pull = pull - counted(
                (events > 0).astype(z.dtype), left * jnp.exp(risk.own - risk.everyone)
            )
        return jnp.where(weights > 0, pull - events, 0.0)

    def influence(self, z, y, weights):
        """With ties as by Breslow: the sum over events of w_i q_ij (1 - q_ij)."""
        events = jnp.where(y.event, weights, 0.0)
        risk = Cox("breslow").risk(z, y, weights)
        twice = risk._replace(own=2 * risk.own, compared=2 * risk.compared)
        return jnp.maximum(expected(risk, y, events) - expected(twice, y, events), 0.0)

    def dual(self, z, y, weights, scale, correction=None):
        risk, events = self.risk(z, y, weights), jnp.where(y.event, weights, 0.0)
        u = self.slopes(z, y, weights)
        z = jnp.where(weights > 0, z, 0.0)
        tied = self.tied(y)
        remains = risk.own if tied is None else risk.own + jnp.log1p(-tied)
        itself = jnp.exp(remains - risk.compared)  # q_ii
        moved = scale * itself + 1 - scale
        others = counted(events, (itself - 1) * risk.compared - itself * z)
        own = counted(events, xlogy(moved, moved) - moved * (remains - z))
        mixed = xlogy(scale, scale) * jnp.sum(counted(events, 1 - itself))
        return scale * (z @ (u + events) + jnp.sum(others)) + jnp.sum(own) + mixed, u

    def of_rows(self, z, y, counts):
        """Minus the log partial likelihood, twice of which is what is called its deviance."""
        value, _ = super().of_rows(z, y, counts)
        # `at` takes counts relative to the largest.
        value = value + jnp.sum(jnp.where(y.event, counts, 0.0)) * jnp.log(jnp.max(counts))
        return value, value

    def hazard(
        self, z: Row, y: Outcome, weights: Row, times: Float[Array, " times"]
    ) -> Float[Array, " times"]:
        """Breslow's estimate of the hazard up to each time of a row whose score is 0."""
        risk, relative = self.risk(z, y, weights), in_units(weights)
        steps = jnp.where(y.event & (weights > 0), relative * jnp.exp(-risk.compared), 0.0)
        return (y.time[None, :] <= times[:, None]).astype(z.dtype) @ steps

    def survival(self, z, y, weights):
        times = jnp.linspace(0.0, SPAN * (weights @ y.time), POINTS, dtype=z.dtype)
        known = at_risk(y, weights > 0, times) >= FEWEST
        right, pairs = concordance(z, y, in_units(weights))
        return {
            "times": times,
            "hazard": jnp.where(known, self.hazard(z, y, weights, times), 0.0),
            "known": known,
            "right": right,
            "pairs": pairs,
        }

    @staticmethod
    def mean(z):
        return z
