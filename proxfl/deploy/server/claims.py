"""What each site has said of its own loss, held against what it says next.

A site may lie about its rows and nobody can tell. It cannot say what contradicts itself:

* at one model a site has one loss and one gradient, asked for by a task or in a round whose uplink
  is the gradient;
* if the loss is convex, of bounded curvature L, then any two of a site's losses and gradients obey

      f(x) >= f(y) + <grad f(y), x - y> + |grad f(x) - grad f(y)|^2 / 2L,

  with the L that the site told. Numbers that do are those of some such loss, and none else are
  (Taylor, Hendrickx, Glineur 2017), so there is nothing more to hold against a site.

Only the first claim of a site and its last are kept. Rounding of an honest site is far below what
is tolerated here.
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.losses.base import as_loss

ROUNDING = 1e-7  # of the magnitudes compared
SAME_MODEL = 1e-12  # models nearer than this, by their length, differ in rounding alone
# The largest curvature a site may have by its own word; power iteration finds it from below.
SLACK = 2.0


class Claim(NamedTuple):
    """A site's loss and gradient at a model, all of them as plain vectors."""

    x: np.ndarray
    loss: float
    gradient: np.ndarray


def claim(x: Any, loss: Any, gradient: Any) -> Claim:
    flat = lambda point: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(point)])
    return Claim(flat(x), float(loss), flat(gradient))


class Claims:
    """All sites' claims about one loss; `smooth` if it is convex and of bounded curvature."""

    def __init__(self, smooth: bool):
        self.smooth = smooth
        self.curvature: dict[str, float] = {}
        self.first: dict[str, Claim] = {}
        self.last: dict[str, Claim] = {}

    def hear_curvature(self, site: str, curvature: Any) -> None:
        if not float(curvature) >= 0:
            raise BadMessage(f"Its curvature is {float(curvature):g}, which no loss has.")
        self.curvature[site] = SLACK * float(curvature)

    def hear(self, site: str, said: Claim) -> None:
        """Take a claim, or refuse it if it contradicts an earlier one."""
        first, curvature = self.first.get(site, said), self.curvature.get(site, math.inf)
        for before in (first, self.last.get(site, said)):
            usual = abs(first.loss)  # near 0, a loss is all rounding
            if not agree(before, said, curvature, usual):
                raise BadMessage(
                    "It contradicts itself: at one model it told a loss and a gradient, and then "
                    "others; its update is not its own gradient, or the other way round."
                )
            pairs = ((before, said), (said, before)) if self.smooth else ()
            if not all(fits(*pair, curvature, usual) for pair in pairs):
                raise BadMessage(
                    "It contradicts itself: no convex loss of the curvature that it told has the "
                    "losses and gradients that it sent."
                )
        self.first.setdefault(site, said)
        self.last[site] = said


def is_smooth(loss: Any) -> bool:
    known = as_loss(loss)
    return known.convex and math.isfinite(known.curvature)


def agree(one: Claim, other: Claim, curvature: float, usual: float) -> bool:
    """Whether two claims say the same, if they are about the same model."""
    apart = np.linalg.norm(one.x - other.x)
    if apart > SAME_MODEL * max(np.linalg.norm(one.x), np.linalg.norm(other.x)):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        loss = usual + min(abs(one.loss), abs(other.loss))
        length = min(np.linalg.norm(one.gradient), np.linalg.norm(other.gradient))
        # A gradient may be much shorter than its terms, whose length is about this.
        terms = math.sqrt(2 * curvature * loss) if math.isfinite(curvature) else 0.0
        difference = np.linalg.norm(one.gradient - other.gradient)
        near = difference <= ROUNDING * (length + terms)
        return bool(near and abs(one.loss - other.loss) <= ROUNDING * loss)


def fits(one: Claim, other: Claim, curvature: float, usual: float) -> bool:
    """Whether a convex function of this curvature can have both: the law above, for x, y."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        step, change = one.x - other.x, one.gradient - other.gradient
        slope, square = other.gradient @ step, change @ change
        needed = square / (2 * curvature) if square > 0 else 0.0
        rounding = ROUNDING * (usual + abs(one.loss) + abs(other.loss) + abs(slope))
        return bool(one.loss - other.loss - slope - needed >= -rounding)
