"""Differential privacy of a training run: what its noise is, what it promises, and what it refuses.

The promise is for **one row**. Neighbours are two federations in which one row of one site has
other contents. In every round each site computes the sum of its rows' gradients at the common
model, each row's clipped to length C (`losses/clipped.py`); noise of deviation noise * C is added
to the sum over all rows. Nothing else that is computed from rows leaves a site: no step is searched
for, no feature is centred or scaled by its data, no certificate is made. Known to all, and not
protected, are the numbers of rows, the names of columns, the classes, which a schema gives, and
whether a site takes part.

Sums are whole numbers of steps of 2^-40 (`engine/fixed_point.py`), and so is the noise
(`engine/discrete_gaussian.py`). What rounding can add to the distance of neighbours, in the sums of
rows and on the way to whole numbers, is bounded and added to C.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from proxfl.algorithms import accounting
from proxfl.engine import discrete_gaussian, fixed_point
from proxfl.errors import InputError
from proxfl.options import Option
from proxfl.options.kinds import POSITIVE_NUMBER, PROBABILITY, optional, whole

OPTIONS = (
    Option(
        "dp_clip",
        optional(POSITIVE_NUMBER),
        "the longest that the gradient of one row may be: with privacy noise, which protects rows",
        None,
    ),
    Option(
        "dp_noise",
        optional(POSITIVE_NUMBER),
        "the deviation of the noise in the sum over all rows, as a multiple of dp_clip",
        None,
    ),
    Option(
        "dp_epsilon",
        optional(POSITIVE_NUMBER),
        "the epsilon that all rounds together may spend, from which dp_noise follows",
        None,
    ),
    Option(
        "dp_delta",
        optional(PROBABILITY),
        "the delta of that epsilon, or of the one that is told",
        None,
    ),
    Option(
        "dp_honest",
        optional(whole(1)),
        "the real sites that are trusted to add their noise, of which each then adds a share; each "
        "adds all of it, if left out",
        None,
    ),
)
# Under noise other values are usual: no column's mean is told, and rounds cost.
USUAL = {"precondition": False, "rounds": 100}
ALGORITHM = "proximal-gradient"  # Algorithm 1 with one local step: one gradient a round
MOST = 2**100  # steps: a deviation whose draws, and sums of some, can be whole numbers of 128 bits
WITHHELD = "No certificate: it would tell of the rows without noise."
REASON = "It takes one gradient of each row in a round, which is what the noise is counted for."


class Noise(NamedTuple):
    """What is added, how often, and what that spends."""

    clip: float
    multiplier: float
    rounds: int
    delta: float
    honest: int

    @property
    def cost(self) -> float:
        """Of one answer; see `accounting.composed`."""
        return accounting.cost(self.multiplier)

    @property
    def epsilon(self) -> float:
        return accounting.composed(self.rounds * self.cost, self.delta)

    def deviation(self, rows: int, size: int) -> int:
        """That of one site's noise, in steps, in a sum of `size` numbers over so many rows.

        A sum of n vectors of at most length C, each within some roundings of `size` numbers, is
        off by n (n + size) C roundings at most; rounding to steps moves `size` numbers by half of
        one. Both count twice, since neighbours are both rounded.
        """
        rounding = 2.0**-52 * (rows + size + 16) ** 2
        longest = self.clip * (1 + rounding) / fixed_point.STEP + math.sqrt(size)
        return math.ceil(self.multiplier * longest / math.sqrt(self.honest))

    def added(self, seed: bytes, values: np.ndarray, rows: int) -> np.ndarray:
        """A sum over so many rows with this site's noise, which only who has the seed can draw."""
        words = fixed_point.encode(values)
        return fixed_point.decode(fixed_point.add(words, self.words(seed, len(values), rows)))

    def words(self, seed: bytes, count: int, rows: int) -> np.ndarray:
        """The noise itself."""
        return discrete_gaussian.noise(seed, self.deviation(rows, count), count)


def noise_of(spec: Any) -> Noise | None:
    """The noise that a spec asks for, if it does."""
    if spec.dp_clip is None:
        return None
    multiplier = spec.dp_noise or multiplier_for(spec.dp_epsilon, spec.dp_delta, spec.rounds)
    return Noise(spec.dp_clip, multiplier, spec.rounds, spec.dp_delta, spec.dp_honest or 1)


multiplier_for = lru_cache(accounting.noise_for)


def usual(option: Option, given: Mapping[str, Any]) -> Any:
    """The value of an option that is left out."""
    private = given.get("dp_clip") is not None
    return USUAL.get(option.key, option.default) if private else option.default


def check(spec: Any, loss: Any, classes: Sequence[Any], fills: bool) -> None:
    """Refuse half a promise, and what cannot keep one."""
    given = [option.key for option in OPTIONS if getattr(spec, option.key) is not None]
    if not given:
        return
    for key in ("dp_clip", "dp_delta"):
        if key not in given:
            raise InputError(f"key {given[0]!r} needs {key!r} beside it; give both.")
    if (spec.dp_noise is None) == (spec.dp_epsilon is None):
        raise InputError("privacy noise needs either 'dp_noise' or 'dp_epsilon'; give one of them.")
    for key, (allowed, why) in ALONE.items():
        if getattr(spec, key) not in allowed:
            raise InputError(f"with privacy noise {why}; leave {key!r} out.")
    if spec.eta is None:
        raise InputError(
            "with privacy noise a step cannot be found from the data; give 'eta', which is at most "
            "1 / the curvature of the loss."
        )
    if loss.couples_rows:
        raise InputError(
            f"privacy noise protects single rows, and the loss {spec.loss!r} compares rows of a "
            "site with one another; use a loss of rows."
        )
    if fills:
        raise InputError(
            "with privacy noise no mean of a column is told; set 'missing' to refuse or drop, also "
            "in the schema."
        )
    if loss.target.most and not (classes or isinstance(spec.schema, str)):
        raise InputError(
            "with privacy noise the classes must be known beforehand; give a schema that names "
            "those of the target."
        )
    found = noise_of(spec)
    if found is None or discrete_gaussian.LEAST <= found.deviation(1, 1) <= MOST:
        return
    raise InputError(
        f"noise of {found.multiplier:g} times a clip of {found.clip:g} is lost in rounding, or too "
        "large to be added up; have features of about the size 1."
    )


# What other options may be, and why.
ALONE: dict[str, tuple[tuple[Any, ...], str]] = {
    "algorithm": (("auto", ALGORITHM), f"the algorithm is {ALGORITHM}, whose gradients carry it"),
    "local_steps": ((1,), "sites take one step a round, since each spends as much as a round"),
    "batch": ((None,), "all rows are in every round"),
    "cohort": ((None,), "all sites are in every round"),
    "eta_g": ((None,), "there is no server step"),
    "inference": ((False,), "there are no standard errors, which would carry none"),
    "standardise": ((False,), "features are not scaled by their data"),
    "precondition": ((False,), "sites do not tell means and spreads, which would carry none"),
    "site_intercepts": ((False,), "a site has no intercept of its own"),
    "row_weights": ((None,), "all rows count alike"),
    "weights": (("samples",), "sites count by their rows"),
    "tol": ((1e-6,), "there is no certificate, and so no tolerance"),
}

PROTECTS = (
    "one row: neighbours are two federations in which one row of one site has other contents; the "
    "numbers of rows, the names of columns and the classes are taken as known"
)
HERE = {
    "against": "whoever reads the model, its report and its other files",
    "provided": "who ran the command had the rows, and tells nothing else of them",
}
IN_THE_CLEAR = {
    "against": "the server, the other sites, and whoever reads the model",
    "provided": "the site of the row adds its noise; no other has to",
}
MASKED = {
    "against": "the server, the other sites, and whoever reads the model",
    "provided": "at least {honest} of the sites, that of the row among them, add their noise and "
    "keep it to themselves; others may tell theirs to the server",
}


def promise(spec: Any, deployment: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a result says of its noise: how much, for whom, against whom, and provided what."""
    if (noise := noise_of(spec)) is None:
        return None
    where = HERE
    if deployment is not None:
        where = MASKED if "masking" in deployment else IN_THE_CLEAR
    told = {"epsilon": noise.epsilon, "delta": noise.delta, "rounds": noise.rounds}
    told |= {"clip": noise.clip, "noise": noise.multiplier, "protects": PROTECTS}
    return told | {key: words.format(honest=noise.honest) for key, words in where.items()}


def in_words(held: Mapping[str, Any]) -> str:
    """The promise in a sentence."""
    return (
        f"Private: epsilon {held['epsilon']:.4g} at delta {held['delta']:.3g} for "
        f"{held['protects']}. Against {held['against']}, provided that {held['provided']}."
    )
