"""Rounds and bytes to optimality 1e-6, from the league tables in results/compare/.

Reads what `proxfl compare` wrote: every method that gets there, at steps tuned on the same budget.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LEAGUE = Path("results/compare")
ROUNDS, BYTES = "rounds to 1e-06", "kB up to 1e-06"


def run() -> dict[str, Any]:
    paths = sorted(LEAGUE.glob("*/table.csv"))
    if not paths:
        raise FileNotFoundError(f"{LEAGUE} holds no tables; run `proxfl compare --out {LEAGUE}`.")
    return {
        "what": "rounds to optimality 1e-6, at tuned steps: Algorithm 1 accelerated, and the rest",
        "table": [row(path.parent.name, pd.read_csv(path)) for path in paths],
    }


def row(problem: str, table: Any) -> dict[str, Any]:
    """The best accelerated method against the best other one, and against Algorithm 1 as it is."""
    there = table[np.isfinite(table[ROUNDS])].sort_values(ROUNDS)
    fast = there["method"].str.contains("Anderson|Nesterov")
    ours, other = there[fast].iloc[0], there[~fast].iloc[0]
    plain = table.set_index("method").loc["Algorithm 1"]
    return {
        "problem": problem,
        "accelerated": ours["method"],
        "rounds": float(ours[ROUNDS]),
        "best other": other["method"],
        "its rounds": float(other[ROUNDS]),
        "fewer rounds by": float(other[ROUNDS] / ours[ROUNDS]),
        "fewer bytes up by": float(other[BYTES] / ours[BYTES]),
        "Algorithm 1's rounds": float(plain[ROUNDS]),
    }
