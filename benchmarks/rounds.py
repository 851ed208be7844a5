"""Rounds and bytes to a certified 1e-6, from the league tables in results/compare/.

Reads what `proxfl compare` wrote: every exact method with steps tuned on the same budget.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LEAGUE = Path("results/compare")
LEVEL = "rounds to 1e-06"


def run() -> dict[str, Any]:
    rows = []
    for path in sorted(LEAGUE.glob("*/table.csv")):
        table = pd.read_csv(path)
        exact = table[(table["verdict"] == "exact") & np.isfinite(table[LEVEL])]
        fast = exact[exact["method"].str.contains("Anderson|Nesterov")]
        plain = exact.drop(fast.index)
        best, other = (t.sort_values(LEVEL).iloc[0] if len(t) else None for t in (fast, plain))
        rows.append(
            {
                "problem": path.parent.name,
                "accelerated": "none exact" if best is None else best["method"],
                "rounds": np.inf if best is None else float(best[LEVEL]),
                "best other": "none exact" if other is None else other["method"],
                "its rounds": np.inf if other is None else float(other[LEVEL]),
                "fewer by": np.nan
                if best is None or other is None
                else float(other[LEVEL] / best[LEVEL]),
                "fewer bytes up by": np.nan
                if best is None or other is None
                else float(other["kB up to 1e-06"] / best["kB up to 1e-06"]),
            }
        )
    if not rows:
        raise FileNotFoundError(f"{LEAGUE} holds no tables; run `proxfl compare --out {LEAGUE}`.")
    return {
        "what": "rounds to optimality 1e-6: accelerated Algorithm 1 and the best other",
        "table": rows,
    }
