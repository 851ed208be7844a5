"""Steps for Algorithm 1: which theorem covers those at hand, and which steps a theorem covers.

Theorems 3.5 to 3.7 are the paper's. Ours are proven in docs/theory.md: A and B, of full gradients,
with their conditions (*) and (**), and C1 and C2, of minibatches. "C1 PL" is the part of C1 that
rests on the proximal PL inequality.
"""

import math
from typing import NamedTuple

from proxfl.algorithms.decoupled import Decoupled
from proxfl.algorithms.exactness import longest_step, margin
from proxfl.research.theory.constants import Constant, Constants
from proxfl.research.theory.exact import Setting

ROUND = "eta * eta_g * tau"
NEARLY = 1e-12  # relative: steps that meet a condition with equality meet it
NO_RATE = 1e-9  # what is left of a linear rate by bisection where there is none


class StepCondition(NamedTuple):
    """One demand of one theorem; `holds` is None where it rests on an estimate."""

    theorem: str
    holds: bool | None
    sentence: str


def demand(theorem: str, holds: bool, sentence: str, *rests_on: Constant) -> StepCondition:
    """An estimate is the best that its constant can be: L is no smaller, mu no larger.

    Every demand here is easier with better constants, so that one which fails with estimates fails
    for certain, while one that holds with them may fail with the truth.
    """
    if not all(constant.known for constant in rests_on):
        return StepCondition(theorem, None, sentence)
    proven = all(constant.proven for constant in rests_on)
    return StepCondition(theorem, (True if proven else None) if holds else False, sentence)


def conditions(constants: Constants, steps: Decoupled, noisy: bool = False) -> list[StepCondition]:
    """Whether (eta, eta_g, tau) is covered by each theorem, and why or why not.

    Of ours, those of full gradients or, if noisy, those of minibatches.
    """
    smooth = [one for theorem in ("3.5", "3.6") for one in non_convex(theorem, constants, steps)]
    pl = positive("3.6", "the proximal PL constant", constants.proximal_pl)
    fitting = [*ours(constants, steps, noisy), *(envelope(constants, steps) if noisy else [])]
    return [*smooth, pl, *strongly_convex(constants, steps), *fitting]


def non_convex(theorem: str, constants: Constants, steps: Decoupled) -> list[StepCondition]:
    L, least = constants.smoothness, max(1.5, math.sqrt(constants.clients / 8))
    server = float(steps.eta_g)
    sentence = f"eta_g is {server:.4g}, at least max(1.5, sqrt(n/8)) = {least:.4g}"
    return [
        short(theorem, steps, 1 / (10 * L.value), "1/(10 L)", L),
        demand(theorem, server >= least * (1 - NEARLY), sentence),
        *of_the_paper(theorem, constants),
    ]


def strongly_convex(constants: Constants, steps: Decoupled) -> list[StepCondition]:
    L, mu, root = constants.smoothness, constants.strong_convexity, math.sqrt(constants.clients)
    server = float(steps.eta_g)
    sentence = f"eta_g is {server:.4g}, and must be sqrt(n) = {root:.4g}"
    return [
        short("3.7", steps, mu.value / (150 * L.value**2), "mu/(150 L^2)", L, mu),
        demand("3.7", math.isclose(server, root), sentence),
        *of_the_paper("3.7", constants),
        positive("3.7", "the strong convexity of f", mu),
    ]


def ours(constants: Constants, steps: Decoupled, noisy: bool) -> list[StepCondition]:
    """Theorem A, for every convex g, and B, which adds a linear rate; with noise, both in C1.

    B holds with any constant below mu as well, so that it asks only for some that (**) allows.
    """
    plain, fast = ("C1", "C1 PL") if noisy else ("A", "B")
    setting, mu = Setting.of(constants, steps), constants.proximal_pl
    L, L_f = constants.smoothness, constants.mean_smoothness
    limit = longest_step(L.value, L_f.value, setting.eta_g, setting.tau, noisy=noisy)
    room, rate = margin(*setting, noisy=noisy), setting.usable(mu.value, noisy) * setting.step
    any_mu = f"mu up to {room / setting.step:.4g}" if room > NO_RATE else "no mu above 0"
    factor = f"; the factor of a round is 1 - {rate:.4g}" if rate > NO_RATE else ""
    linear = f"{ROUND} is {setting.step:.4g}, for which (**) allows {any_mu}{factor}"
    return [
        short(plain, steps, limit, "what (*) allows", L, L_f),
        convex(plain, constants),
        demand(fast, room > NO_RATE, linear, L, L_f),
        convex(fast, constants),
        positive(fast, "the proximal PL constant", mu),
    ]


def envelope(constants: Constants, steps: Decoupled) -> list[StepCondition]:
    """Theorem C2, whose floor goes to zero with the step."""
    L, server = constants.smoothness, float(steps.eta_g)
    return [
        short("C2", steps, 1 / (4 * L.value), "1/(4 L)", L),
        demand("C2", server >= 1 - NEARLY, f"eta_g is {server:.4g}, at least 1"),
        convex("C2", constants),
    ]


def of_the_paper(theorem: str, constants: Constants) -> list[StepCondition]:
    """What all theorems of the paper assume of g and of the clients."""
    B, equal = constants.subgradient.value, constants.effective / constants.clients
    return [
        demand(theorem, math.isfinite(B), f"subgradients of g are bounded by B_g = {B:.4g}"),
        convex(theorem, constants),
        demand(theorem, equal > 1 - 1e-6, "all clients have the same weight"),
    ]


def short(theorem: str, steps: Decoupled, limit: float, words: str, *on: Constant) -> StepCondition:
    long = float(steps.eta_round)
    sentence = f"{ROUND} is {long:.4g}, at most {words} = {limit:.4g}"
    return demand(theorem, long <= limit * (1 + NEARLY), sentence, *on)


def convex(theorem: str, constants: Constants) -> StepCondition:
    return demand(theorem, constants.convex_penalty, "g is convex")


def positive(theorem: str, name: str, mu: Constant) -> StepCondition:
    found = f"{mu.value:.4g}" if mu.known else "not known"
    return demand(theorem, mu.value > 0, f"{name} is {found}, and must be positive", mu)


class StepProposal(NamedTuple):
    """Steps, and what is known of them."""

    name: str
    steps: Decoupled
    standing: str


def propose(
    constants: Constants, tau: int, eta_g: float, noisy: bool = False
) -> list[StepProposal]:
    """Steps that meet each theorem's conditions with equality, and those to try first.

    Left out are theorems one of whose demands fails. The steps to try first rest on the server's
    step being an inexact proximal gradient step, stable up to 2/L of the mean loss, with local
    steps short enough for the most curved client.
    """
    L, L_f = constants.smoothness.value, constants.mean_smoothness.value
    longest = lambda mu: with_round(longest_step(L, L_f, eta_g, tau, mu, noisy), eta_g, tau)
    plain, linear = longest(0.0), longest(constants.proximal_pl.value)
    full = [("ours, Theorem A", "A", plain), ("ours, Theorem B", "B", linear)]
    batches = [
        ("ours, Theorem C1", "C1", plain),
        ("ours, Theorem C1 with proximal PL", "C1 PL", linear),
        ("ours, Theorem C2", "C2", with_round(1 / (4 * L), eta_g, tau)),
    ]
    candidates = [
        ("the paper's Theorem 3.5", "3.5", steps_35(constants, tau)),
        ("the paper's Theorem 3.6", "3.6", steps_35(constants, tau)),
        *(batches if noisy else full),
    ]
    if constants.strong_convexity.value > 0:
        candidates.insert(2, ("the paper's Theorem 3.7", "3.7", steps_37(constants, tau)))
    found = []
    for name, theorem, steps in candidates:
        holds = [c.holds for c in conditions(constants, steps, noisy) if c.theorem == theorem]
        if False not in holds:
            standing = "covered" if all(holds) else "not known: rests on an estimate"
            found.append(StepProposal(name, steps, standing))
    practical = with_round(1 / L_f, max(1.0, L / (L_f * tau)), tau)
    return [*found, StepProposal("to try first: 1/L of the mean loss", practical, "no theorem")]


def steps_35(constants: Constants, tau: int) -> Decoupled:
    """The longest steps of Theorems 3.5 and 3.6."""
    server = max(1.5, math.sqrt(constants.clients / 8))
    return with_round(1 / (10 * constants.smoothness.value), server, tau)


def steps_37(constants: Constants, tau: int) -> Decoupled:
    """The longest steps of Theorem 3.7, for a strongly convex f."""
    L, mu = constants.smoothness.value, constants.strong_convexity.value
    return with_round(mu / (150 * L**2), math.sqrt(constants.clients), tau)


def with_round(step: float, eta_g: float, tau: int) -> Decoupled:
    return Decoupled(step / (eta_g * tau), eta_g, tau)
