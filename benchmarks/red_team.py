"""`python -m benchmarks.red_team`: what a server in an attacker's hands learns of a site's rows.

Each attack of `tests/deploy/red_team.py`, on tables of 2,000 rows with 10 features, without limits
and within the usual ones: rows told to 0.1 standard deviations in every feature. Written to
`results/security/red_team.json`.

`python -m benchmarks.red_team member`: the same server with one of three members on its side, which
under masks chooses the models and sees the sum of the other two sites, each within its policy. The
attacker here may ask at once what it would have to steer a run to, so that it has more than a
masked run gives. Written to `results/security/red_team_member.json`.
"""

import json
import logging
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from proxfl.storage.files import write_text
from tests.deploy.red_team import (
    OFF,
    USUAL,
    Attacker,
    Colluder,
    isolate,
    kinks,
    outliers,
    recovered,
    solve_all,
    solve_more,
    tilt,
    victim,
)  # fmt: skip

OUT, OF_TWO = Path("results/security/red_team.json"), Path("results/security/red_team_member.json")
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


# Of the sum of two sites; `share` is the rule on how many rows must be behind an answer.
SHARES = (0.0, 0.01, USUAL.share)
MEMBER = {
    f"{name}, share {share:g}": (attack, {"policy": USUAL.replace(share=share)} | options)
    for share in SHARES
    for name, (attack, options) in {
        "isolate": (lambda a: isolate(a, 4000), {}),
        "isolate, length 30": (lambda a: isolate(a, 4000, 30.0), {}),
        "tilt": (lambda a: tilt(a, 30), {}),
        "tilt, heavy tails": (lambda a: tilt(a, 30), {"heavy": True}),
        "outliers, heavy tails": (tail, {"heavy": True}),
    }.items()
} | {
    f"solve all of 2 x {SMALL} rows, with Hessians": (MORE, TABLE),
    f"solve all of 2 x {SMALL} rows, a plan without Hessians": (
        MORE,
        TABLE | {"algorithm": "decoupled"},
    ),
    # Most of the time of all: more numbers are told than the rows have.
    f"solve all of 2 x {SMALL} rows of 8 features, with Hessians": (MORE, TABLE | {"features": 8}),
}


def with_a_member(options, seed, folder):
    """Two honest sites, of half the rows each."""
    given = {"rows": ROWS // 2} | options
    pair = [victim(Path(folder, str(k)), **given, seed=10 * seed + k) for k in (0, 1)]
    return Colluder([site for site, _, _ in pair]), np.concatenate([A for _, A, _ in pair])


def alone(options, seed, folder):
    site, A, _ = victim(Path(folder), **{"rows": ROWS, "seed": seed} | options)
    return Attacker(site), A


def told(member, name, seed):
    """Rows recovered, questions asked and refused, of an attack with a seed."""
    logging.disable(logging.CRITICAL)
    os.fsync = lambda handle: None  # nothing here is about power loss
    attack, options = (MEMBER if member else CASES)[name]
    with tempfile.TemporaryDirectory() as folder:
        attacker, A = (with_a_member if member else alone)(options, seed, folder)
        return recovered(A, attack(attacker)), attacker.asked, attacker.refused


def main() -> None:
    member = sys.argv[1:] == ["member"]
    cases, out = (MEMBER, OF_TWO) if member else (CASES, OUT)
    command = " ".join(["python -m benchmarks.red_team", *sys.argv[1:]])
    found, about = {}, {"command": command, "rows": ROWS, "seeds": list(SEEDS)}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        each = {name: [pool.submit(told, member, name, seed) for seed in SEEDS] for name in cases}
        for name, parts in each.items():
            rows, asked, refused = zip(*(part.result() for part in parts), strict=True)
            found[name] = {"rows": rows, "questions": asked, "refused": refused}
            print(name, found[name], flush=True)
            write_text(out, json.dumps(about | {"attacks": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
