"""Steps for Algorithm 1: which theorem covers those at hand, and which steps a theorem covers.

Theorems 3.5 to 3.7 are the paper's; A and B, with their conditions (*) and (**), are ours and are
proven in docs/theory.md.
"""

import math
from typing import NamedTuple

from proxfl.algorithms.decoupled import Decoupled
from proxfl.algorithms.exactness import longest_step
from proxfl.research.theory.constants import Constant, Constants
from proxfl.research.theory.exact import Setting

ROUND = "eta * eta_g * tau"
NEARLY = 1e-12  # relative: steps that meet a condition with equality meet it


class Condition(NamedTuple):
    """One demand of one theorem; `holds` is None where it rests on an estimate."""

    theorem: str
    holds: bool | None
    sentence: str


def demand(theorem: str, holds: bool, sentence: str, *rests_on: Constant) -> Condition:
    """Estimates are the best the constants can be: a failure is certain then, a success is not."""
    known = all(constant.proven for constant in rests_on)
    return Condition(theorem, (True if known else None) if holds else False, sentence)


def conditions(constants: Constants, steps: Decoupled) -> list[Condition]:
    """Whether (eta, eta_g, tau) is covered by each theorem, and why or why not."""
    smooth = [one for theorem in ("3.5", "3.6") for one in non_convex(theorem, constants, steps)]
    pl = positive("3.6", "the proximal PL constant", constants.proximal_pl)
    return [*smooth, pl, *strongly_convex(constants, steps), *ours(constants, steps)]


def non_convex(theorem: str, constants: Constants, steps: Decoupled) -> list[Condition]:
    L, least = constants.smoothness, max(1.5, math.sqrt(constants.clients / 8))
    server = float(steps.eta_g)
    sentence = f"eta_g is {server:.4g}, at least max(1.5, sqrt(n/8)) = {least:.4g}"
    return [
        short(theorem, steps, 1 / (10 * L.value), "1/(10 L)", L),
        demand(theorem, server >= least * (1 - NEARLY), sentence),
        *of_the_paper(theorem, constants),
    ]


def strongly_convex(constants: Constants, steps: Decoupled) -> list[Condition]:
    L, mu, root = constants.smoothness, constants.strong_convexity, math.sqrt(constants.clients)
    server = float(steps.eta_g)
    sentence = f"eta_g is {server:.4g}, and must be sqrt(n) = {root:.4g}"
    return [
        short("3.7", steps, mu.value / (150 * L.value**2), "mu/(150 L^2)", L, mu),
        demand("3.7", math.isclose(server, root), sentence),
        *of_the_paper("3.7", constants),
        positive("3.7", "the strong convexity of f", mu),
    ]


def ours(constants: Constants, steps: Decoupled) -> list[Condition]:
    """Theorem A, for every convex g, and B, which adds a linear rate."""
    setting, mu = Setting.of(constants, steps), constants.proximal_pl
    L, L_f = constants.smoothness, constants.mean_smoothness
    limit, fast = (
        longest_step(L.value, L_f.value, setting.eta_g, setting.tau, m) for m in (0.0, mu.value)
    )
    return [
        short("A", steps, limit, "what (*) allows", L, L_f),
        convex("A", constants),
        short("B", steps, fast, "what (**) allows", L, L_f),
        convex("B", constants),
        positive("B", "the proximal PL constant", mu),
    ]


def of_the_paper(theorem: str, constants: Constants) -> list[Condition]:
    """What all theorems of the paper assume of g and of the clients."""
    B, equal = constants.subgradient.value, constants.effective / constants.clients
    return [
        demand(theorem, math.isfinite(B), f"subgradients of g are bounded by B_g = {B:.4g}"),
        convex(theorem, constants),
        demand(theorem, equal > 1 - 1e-6, "all clients have the same weight"),
    ]


def short(theorem: str, steps: Decoupled, limit: float, words: str, *on: Constant) -> Condition:
    long = float(steps.eta_round)
    sentence = f"{ROUND} is {long:.4g}, at most {words} = {limit:.4g}"
    return demand(theorem, long <= limit * (1 + NEARLY), sentence, *on)


def convex(theorem: str, constants: Constants) -> Condition:
    return demand(theorem, constants.convex_penalty, "g is convex")


def positive(theorem: str, name: str, mu: Constant) -> Condition:
    return demand(theorem, mu.value > 0, f"{name} is {mu.value:.4g}, and must be positive", mu)


class Proposal(NamedTuple):
    """Steps, and what is known of them."""

    name: str
    steps: Decoupled
    standing: str


def propose(constants: Constants, tau: int, eta_g: float) -> list[Proposal]:
    """Steps that meet each theorem's conditions with equality, and those to try first.

    Left out are theorems one of whose demands fails. The steps to try first rest on the server's
    step being an inexact proximal gradient step, stable up to 2/L of the mean loss, with local
    steps short enough for the most curved client.
    """
    L, L_f = constants.smoothness.value, constants.mean_smoothness.value
    longest = lambda mu: with_round(longest_step(L, L_f, eta_g, tau, mu), eta_g, tau)
    candidates = [
        ("the paper's Theorem 3.5", "3.5", steps_35(constants, tau)),
        ("the paper's Theorem 3.6", "3.6", steps_35(constants, tau)),
        ("the paper's Theorem 3.7", "3.7", steps_37(constants, tau)),
        ("ours, Theorem A", "A", longest(0.0)),
        ("ours, Theorem B", "B", longest(constants.proximal_pl.value)),
    ]
    found = []
    for name, theorem, steps in candidates:
        holds = [c.holds for c in conditions(constants, steps) if c.theorem == theorem]
        if False not in holds:
            standing = "covered" if all(holds) else "not known: rests on an estimate"
            found.append(Proposal(name, steps, standing))
    practical = with_round(1 / L_f, max(1.0, L / (L_f * tau)), tau)
    return [*found, Proposal("to try first: 1/L of the mean loss", practical, "no theorem")]


def steps_35(constants: Constants, tau: int) -> Decoupled:
    """The longest steps of Theorems 3.5 and 3.6."""
    server = max(1.5, math.sqrt(constants.clients / 8))
    return with_round(1 / (10 * constants.smoothness.value), server, tau)


def steps_37(constants: Constants, tau: int) -> Decoupled:
    """The longest steps of Theorem 3.7, or some it does not cover if f is not strongly convex."""
    L, mu = constants.smoothness.value, constants.strong_convexity.value
    return with_round((mu or L) / (150 * L**2), math.sqrt(constants.clients), tau)


def with_round(step: float, eta_g: float, tau: int) -> Decoupled:
    return Decoupled(step / (eta_g * tau), eta_g, tau)
