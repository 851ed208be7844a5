"""What each site has said of its own loss, held against what it says next.

A site may lie about its rows and nobody can tell. It cannot say what contradicts itself:

* at one model a site has one loss and one gradient, asked for by a task or in a round whose uplink
  is the gradient;
* if the loss is convex, of bounded curvature L, then any two of a site's losses and gradients obey

      f(x) >= f(y) + <grad f(y), x - y> + |grad f(x) - grad f(y)|^2 / 2L,

  with the L that the site told. Numbers that do are those of some such loss, and none else are
  (Taylor, Hendrickx, Glineur 2017), so there is nothing more to hold against a site.

A mean of such losses is one: under masks the mean over all sites' rows is held to the same, and who
lied is not known. Only the first claim of a site and its last are kept. Rounding of an honest site
is far below what is tolerated here.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.losses.base import as_loss
from proxfl.train.federation import Exact
from proxfl.train.tasks import part_way

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


class Usual(NamedTuple):
    """Magnitudes that rounding is held to: of the loss and gradient at the first model, of the
    curvature, and of the numbers' own step."""

    loss: float
    length: float
    curvature: float
    step: float


class Impossible(BadMessage):
    """What no site with rows says; `why` not, as the middle of a sentence."""

    def __init__(self, why: str):
        super().__init__(f"{why[0].upper()}{why[1:]}.")
        self.why = why


class Claims:
    """All sites' claims about one loss; `smooth` if it is convex and of bounded curvature.

    `step` is that of the numbers in which claims come, where it is coarser than their rounding.
    """

    def __init__(self, smooth: bool, step: float = 0.0):
        self.smooth, self.step = smooth, step
        self.curvature: dict[str, float] = {}
        self.first: dict[str, Claim] = {}
        self.last: dict[str, Claim] = {}

    def hear_curvature(self, site: str, curvature: Any) -> None:
        if not float(curvature) >= 0:
            raise Impossible(f"its curvature is {float(curvature):g}, which no loss has")
        self.curvature[site] = SLACK * float(curvature)

    def hear_answer(
        self, site: str, task: str, question: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Take what an answer to a task says of the loss, if it says anything."""
        if task == "curvature":
            self.hear_curvature(site, answer["curvature"])
        if task == "evaluate":
            self.hear(site, claim(question["x"], answer["value"], answer["gradient"]))
        if task == "newton" and bool(answer["finite"]):
            x = part_way(question["x"], question["u"], question["length"])
            self.hear(site, claim(x, answer["value"], answer["gradient"]))

    def hear_uplink(self, site: str, exact: Exact, up: Any, loss: Any) -> None:
        """Take what a round's uplink is known to say."""
        self.hear(site, claim(exact.x, loss, up / exact.factor))

    def hear(self, site: str, said: Claim) -> None:
        """Take a claim, or refuse it if it contradicts an earlier one."""
        wrong = self.against(site, said)
        if wrong is not None:
            raise Impossible(f"it contradicts itself: {wrong}")
        self.first.setdefault(site, said)
        self.last[site] = said

    def against(self, site: str, said: Claim) -> str | None:
        """What a claim contradicts, if it does."""
        first, curvature = self.first.get(site, said), self.curvature.get(site, math.inf)
        usual = Usual(abs(first.loss), float(np.linalg.norm(first.gradient)), curvature, self.step)
        for before in (first, self.last.get(site, said)):
            if not agree(before, said, usual):
                return "at one model it told a loss and a gradient, and then others"
            pairs = ((before, said), (said, before)) if self.smooth else ()
            if not all(fits(*pair, usual) for pair in pairs):
                return "no convex loss of the curvature that it told has its losses and gradients"
        return None


def is_smooth(loss: Any) -> bool:
    known = as_loss(loss)
    return known.convex and math.isfinite(known.curvature)


def agree(one: Claim, other: Claim, usual: Usual) -> bool:
    """Whether two claims say the same, if they are about the same model."""
    apart = np.linalg.norm(one.x - other.x)
    if apart > SAME_MODEL * max(np.linalg.norm(one.x), np.linalg.norm(other.x)):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        loss = usual.loss + min(abs(one.loss), abs(other.loss))
        length = min(np.linalg.norm(one.gradient), np.linalg.norm(other.gradient))
        # A gradient may be much shorter than its terms, whose length is about this.
        curved = math.isfinite(usual.curvature)
        terms = math.sqrt(2 * usual.curvature * loss) if curved else usual.length
        difference = np.linalg.norm(one.gradient - other.gradient)
        steps = usual.step * math.sqrt(len(one.x))
        near = difference <= ROUNDING * (length + terms) + steps
        return bool(near and abs(one.loss - other.loss) <= ROUNDING * loss + usual.step)


def fits(one: Claim, other: Claim, usual: Usual) -> bool:
    """Whether a convex function of this curvature can have both: the law above, for x, y."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        step, change = one.x - other.x, one.gradient - other.gradient
        slope, square = other.gradient @ step, change @ change
        needed = square / (2 * usual.curvature) if square > 0 else 0.0
        rounding = ROUNDING * (usual.loss + abs(one.loss) + abs(other.loss) + abs(slope))
        steps = usual.step * (1 + np.abs(step).sum())
        return bool(one.loss - other.loss - slope - needed >= -(rounding + steps))
