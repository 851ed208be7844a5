"""The inequalities on a large grid; `python -m` this writes its outcome."""

import json
from itertools import product
from pathlib import Path

import numpy as np

from proxfl.algorithms.exactness import longest_step
from tests.cases_prox import Case, regularisers
from tests.research.exactness import noisy
from tests.research.exactness.lines import ANYWHERE, STRONGLY, WITHIN, Seen, tightest
from tests.research.exactness.loop import Run, draw, run, solve

CONVEX = [case for case in regularisers if np.isinf(case.step_limit)]
STEPS = [(1, 1.0), (2, 1.0), (5, 1.0), (3, 2.0), (10, 4.0), (4, 0.7), (8, 0.3)]  # tau, eta_g
LINES = ANYWHERE | WITHIN
SEEDS, ROUNDS = 4, 30
OUTCOME = Path(__file__).parents[3] / "results" / "theory" / "inequalities.json"


def at_the_limit(case: Case, tau: int, eta_g: float, seed: int, rounds: int) -> Run:
    """A run with the longest steps that Theorem A covers."""
    sites = draw(seed, case.size)
    step = longest_step(sites.L, sites.L_f, eta_g, tau)
    return run(sites, case, step, eta_g, tau, rounds, seed=seed)


def strongly(case: Case, tau: int, eta_g: float, seed: int, rounds: int) -> tuple[Seen, np.ndarray]:
    """A strongly convex problem's run with the longest steps of Theorem B, and its gaps."""
    sites = draw(seed, case.size, ripple=0.0)
    step = longest_step(sites.L, sites.L_f, eta_g, tau, sites.mu)
    seen = Seen(run(sites, case, step, eta_g, tau, rounds, seed=seed))
    return seen, seen.gap(solve(sites, case))


def outcome() -> dict[str, dict]:
    """For every inequality the largest ratio of its sides, and on how many runs it was tried."""
    found: dict[str, list[float]] = {name: [] for name in (*LINES, *STRONGLY, *noisy.NOISY)}
    for case, (tau, eta_g), seed in product(CONVEX, STEPS, range(SEEDS)):
        seen = Seen(at_the_limit(case, tau, eta_g, seed, ROUNDS))
        for name, line in LINES.items():
            found[name].append(tightest(line(seen)))
    for case, (tau, eta_g) in product(CONVEX, STEPS):
        one = strongly(case, tau, eta_g, 0, ROUNDS)
        for name, line in STRONGLY.items():
            found[name].append(tightest(line(*one)))
    for case, steps, seed in product(noisy.PENALTIES, noisy.STEPS, range(SEEDS)):
        for name, (line, most, ripple) in noisy.NOISY.items():
            seen = noisy.noisy(case, steps, seed, most, ripple)
            found[name].append(tightest(line(seen)))
    return {
        name: {"largest ratio": round(max(ratios), 4), "runs": len(ratios)}
        for name, ratios in found.items()
    }


if __name__ == "__main__":
    import jax

    jax.config.update("jax_enable_x64", True)
    OUTCOME.parent.mkdir(parents=True, exist_ok=True)
    found = outcome()
    OUTCOME.write_text(json.dumps(found, indent=1) + "\n")
    rows = [f"| {name} | {row['largest ratio']} | {row['runs']} |" for name, row in found.items()]
    head = ["| line | largest ratio | runs |", "| --- | --- | --- |"]
    OUTCOME.with_suffix(".md").write_text("\n".join([*head, *rows]) + "\n")
