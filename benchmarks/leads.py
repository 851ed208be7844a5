"""What else could save rounds: steps learnt on the way, better first corrections, other tau.

Rounds to optimality 1e-6 with all gradients full, each step the best of the league's grid for that
very draw, so that every idea is shown at its best. Medians over draws. The problems are the three
that ship of which Algorithm 1 needs hundreds of rounds; on the others there is little to save, and
the league (results/compare) shows them all.

- corrections: the first round takes one long local step instead of tau short ones, so that the
  corrections start as those of x0 and cost nothing
- adaptive: steps by the server's rule, from a first step far too short (0.01/L), with no grid
- cost: a round costs its trip and tau gradients; which tau is cheapest depends on their ratio
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import proxfl as px
from proxfl.engine.sweep import sweep
from proxfl.research.league.draws import Draw, draw_of
from proxfl.research.league.entrants import FINE
from proxfl.research.shipped import PROBLEMS

NAMES, DRAWS, ROUNDS, LEVEL = ("l1-logistic", "ill-conditioned", "sigmoid"), (1, 2, 3), 2000, 1e-6
TAUS, SERVER = (1, 5), 4.0
TRIPS = (0.1, 1.0, 10.0, 100.0)  # a trip's cost in gradients


def fewest(draw: Draw, made: list[px.Algorithm]) -> tuple[float, int]:
    """Rounds of the fastest to the level, and which it was."""
    seen = sweep(
        made,
        draw.problem,
        draw.shards,
        rounds=ROUNDS,
        every=1,
        observe={"optimality": draw.observe["optimality"]},
        progress=False,
    )
    below = np.nan_to_num(seen.history["optimality"], nan=np.inf) <= LEVEL
    first = np.where(below.any(axis=1), below.argmax(axis=1), np.inf)
    return float(first.min()), int(first.argmin())


def plain(draw: Draw, tau: int) -> list[px.Decoupled]:
    return [px.Decoupled(s / (draw.L * SERVER * tau), SERVER, tau) for s in FINE[1]]


def with_first_corrections(draw: Draw, algorithm: px.Decoupled) -> float:
    """As the method, but after a first round of one local step, equal in all it leaves behind."""
    opening = px.Decoupled(algorithm.eta * algorithm.tau, algorithm.eta_g, 1)
    options = dict(every=1, observe={"optimality": draw.observe["optimality"]}, progress=False)
    begun = px.simulate(opening, draw.problem, draw.shards, rounds=1, **options)
    after = px.simulate(
        algorithm, draw.problem, draw.shards, rounds=ROUNDS, run=begun.run, **options
    )
    below = after.history["optimality"] <= LEVEL
    return float(after.history["round"][below.argmax()]) if below.any() else np.inf


def ideas(draw: Draw) -> Iterator[tuple[str, int, float]]:
    """(idea, gradients per round, rounds)"""
    for tau in TAUS:
        made = plain(draw, tau)
        rounds, best = fewest(draw, made)
        yield f"Algorithm 1, tau = {tau}", tau, rounds
        if tau > 1:
            yield (
                f"Algorithm 1, tau = {tau}, first corrections",
                tau,
                with_first_corrections(draw, made[best]),
            )
        yield f"Anderson, tau = {tau}", tau, fewest(draw, [px.Accelerated(a) for a in made])[0]
    yield "adaptive", 1, fewest(draw, [px.Adaptive(0.01 / draw.L)])[0]


def median_over_draws(problem: Callable[[int], Any]) -> dict[str, tuple[int, float]]:
    every = [list(ideas(draw_of(problem(seed)))) for seed in DRAWS]
    return {
        name: (tau, float(np.median([rounds[k][2] for rounds in every])))
        for k, (name, tau, _) in enumerate(every[0])
    }


def cheapest(found: dict[str, tuple[int, float]], trip: float) -> str:
    plain_ones = {name: v for name, v in found.items() if name.startswith("Algorithm 1")}
    return min(plain_ones, key=lambda name: (trip + found[name][0]) * found[name][1])


def run() -> dict[str, Any]:
    found = {name: median_over_draws(PROBLEMS[name]) for name in NAMES}
    table = [
        {"idea": idea, "gradients a round": found[NAMES[0]][idea][0]}
        | {name: found[name][idea][1] for name in NAMES}
        for idea in found[NAMES[0]]
    ]
    return {
        "what": "rounds to optimality 1e-6 with what else was tried",
        "table": table,
        "cheapest": [
            {"a trip costs so many gradients": trip}
            | {name: cheapest(found[name], trip) for name in NAMES}
            for trip in TRIPS
        ],
    }
