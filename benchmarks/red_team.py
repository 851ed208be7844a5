"""`python -m benchmarks.red_team`: what a server in an attacker's hands learns of a site's rows.

Each attack of `tests/deploy/red_team.py`, on tables of 2,000 rows with 10 features, without limits
and within the usual ones: rows told to 0.1 standard deviations in every feature. Written to
`results/security/red_team.json`.
"""

import json
import logging
import os
import tempfile
from pathlib import Path

import numpy as np

from proxfl.storage.files import write_text
from tests.deploy.red_team import (
    OFF,
    USUAL,
    Attacker,
    isolate,
    kinks,
    outliers,
    recovered,
    solve_all,
    solve_more,
    tilt,
    victim,
)  # fmt: skip

OUT = Path("results/security/red_team.json")
ROWS, SMALL, SEEDS = 2000, 60, range(5)
LENGTHS = (1e6, 100.0, 50.0, 20.0, 10.0, 5.0, 1.0, 0.5)


def tail(attacker):
    """Outliers of the first feature by several lengths; as many as the site answers for."""
    found = [np.zeros((0, attacker.features))]
    for length in (0.15, 0.2, 0.25, 0.3):
        found += [outliers(attacker, length, np.linspace(4, 40, 50), few) for few in (1, 2, 3)]
    return np.concatenate([each for each in found if len(each)] or found)


BY_LINE = lambda attacker: kinks(attacker.gradient, attacker.features, LENGTHS, 650)
BY_DUAL = lambda attacker: kinks(
    lambda w, b: attacker.corrected(w, b, (1.0, 0.0)), attacker.features, LENGTHS, 650
)
SOLVE = lambda attacker: solve_all(attacker, SMALL)
MORE = lambda attacker: solve_more(attacker, USUAL.questions(SMALL))
TABLE = {"rows": SMALL, "features": 4}
CONSENT = USUAL.replace(kinks=True)
CASES = {
    "isolate, no limits": (lambda a: isolate(a, 4000), {"policy": OFF}),
    "isolate": (lambda a: isolate(a, 4000), {}),
    "isolate, length 3": (lambda a: isolate(a, 4000, 3.0), {}),
    "tilt": (lambda a: tilt(a, 30), {}),
    "tilt, heavy tails": (lambda a: tilt(a, 30), {"heavy": True}),
    "outliers, heavy tails": (tail, {"heavy": True}),
    "outliers, normal": (tail, {}),
    "kinks, squared, by the dual": (BY_DUAL, {"loss": "squared", "l1": 0.01}),
    "kinks, poisson, by the dual": (BY_DUAL, {"loss": "poisson", "l1": 0.01}),
    "kinks, huber, owner consents": (BY_LINE, {"loss": "huber", "policy": CONSENT}),
    f"solve all of {SMALL} rows, no limits": (SOLVE, TABLE | {"policy": OFF}),
    f"solve all of {SMALL} rows": (SOLVE, TABLE),
    f"solve all of {SMALL} rows, with Hessians": (MORE, TABLE),
    f"solve all of {SMALL} rows, a plan without Hessians": (
        MORE,
        TABLE | {"algorithm": "decoupled"},
    ),
}


def measured(attack, options):
    told = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            site, A, _ = victim(Path(folder), **{"rows": ROWS, "seed": seed} | options)
            attacker = Attacker(site)
            rows = recovered(A, attack(attacker))
            told.append([rows, attacker.asked, attacker.refused])
    rows, asked, refused = zip(*told, strict=True)
    return {"rows": rows, "questions": asked, "refused": refused}


def main() -> None:
    logging.disable(logging.CRITICAL)
    os.fsync = lambda handle: None  # nothing here is about power loss
    found = {}
    for name, (attack, options) in CASES.items():
        found[name] = measured(attack, options)
        print(name, found[name], flush=True)
    about = {"command": "python -m benchmarks.red_team", "rows": ROWS, "seeds": list(SEEDS)}
    write_text(OUT, json.dumps(about | {"attacks": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
