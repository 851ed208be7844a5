"""`python -m benchmarks.curious`: what an honest server learns of rows from what it hears anyway.

The attacks of `tests/deploy/curious.py` after honest runs between three sites, by the usual policy,
except that studies in the clear are allowed, and paths are automatic. Of one site in the clear, or
of the sum of the three, which is what masks leave. A small site has as few rows as the policy takes
and about as many features as it takes for these. Written to `results/security/curious.json`.

    taken            rows told to 0.1 standard deviations in all features, the most of some starts
    by chance        the same of as many guesses, with the means and covariances of the site
    told apart       how often a row of the site looks more like one than one of its population
    counted          features are 0 or 1: rows whose features are told, all together; by chance, the
                     same of as many rows of the population
    with labels      of these, rows whose label is told as well
    rare, told       kinds of rows of which there are 1 to 4, and those whose number is told
"""

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from proxfl.deploy.site.policy import Policy
from proxfl.storage.files import write_text
from proxfl.train.choice import Choice
from tests.deploy.curious import counted, likely, moved, numbers, overheard, summed
from tests.deploy.field import NAMES, Field
from tests.deploy.red_team import recovered

OUT = Path("results/security/curious.json")
SEEDS, STARTS, KNOWN = range(3), 3, 5000  # rows of the population that the server has
POLICY = Policy(unmasked=True, automatic=("train", "path"))
NEWTON, INFERENCE = {"l1": 0.01}, {"inference": True}
FIRST_ORDER = {"l1": 0.01, "algorithm": "decoupled"}
PATH = {"choice": Choice(points=3, folds=2), "standardise": False, "precondition": False}


class Population:
    """Rows of normal features, or of some that are 0 or 1; labels are by a logistic model."""

    def __init__(self, features, bits, seed):
        self.rng, self.features, self.bits = np.random.default_rng(seed), features, bits
        self.slopes = self.rng.normal(size=features)

    def draw(self, rows):
        """Features, and a last column of labels."""
        A = self.rng.normal(size=(rows, self.features))
        if self.bits:
            A = (self.rng.uniform(size=A.shape) < np.linspace(0.25, 0.5, self.features)) * 1.0
        return np.column_stack([A, A @ self.slopes + self.rng.logistic(size=rows) > 0])


class Run(NamedTuple):
    """What was heard, of which rows, and how sites prepare others like these."""

    known: object
    rows: np.ndarray
    way: np.ndarray

    def prepared(self, rows):
        return np.column_stack([with_ones(rows[:, :-1]) @ self.way, rows[:, -1]])


def with_ones(A):
    return np.column_stack([A, np.ones(len(A))])


def ran(folder, population, rows, asked, together):
    field = Field(folder, policy=POLICY)
    field.ask(**{"target": "y", "loss": "logistic"} | asked)
    names, drawn = [f"x{j}" for j in range(population.features)], []
    for file in field.files:
        drawn.append(population.draw(rows))
        pd.DataFrame(drawn[-1][:, :-1], columns=names).assign(
            y=drawn[-1][:, -1].astype(int)
        ).to_csv(file, index=False)
    found = overheard(field)
    own = found[NAMES[0]]
    way = np.linalg.lstsq(with_ones(drawn[0][:, :-1]), own.A, rcond=None)[0]
    if together:
        return Run(summed(list(found.values())), np.concatenate(drawn), way)
    return Run(own, drawn[0], way)


def of_numbers(run, population):
    """Rows that are moved until they answer the same; and rows that are told from others."""
    known, rng = run.known, np.random.default_rng(0)
    mean, spread, rows = known.A.mean(axis=0), np.cov(known.A.T), len(known.A)
    taken, chance = [], []
    for _ in range(STARTS):
        guess = rng.multivariate_normal(mean, spread, rows)
        found, _ = moved(known, np.column_stack([guess, rng.normal(size=rows)]))
        taken.append(recovered(known.A, found))
        chance.append(recovered(known.A, guess))
    return {
        "numbers": sum(len(numbers(one.answer)) for one in known.heard),
        "taken": max(taken),
        "by chance": max(chance),
        **told_apart(run, population),
    }


def of_many(run, population):
    """The same where rows are too many to be moved."""
    return {
        "numbers": sum(len(numbers(one.answer)) for one in run.known.heard),
        **told_apart(run, population),
    }


def told_apart(run, population):
    others = run.prepared(population.draw(KNOWN))
    strangers = run.prepared(population.draw(len(run.rows)))
    mine = run.prepared(run.rows)
    told = likely(run.known, np.concatenate([mine, strangers]), others)
    own, other = np.split(told, [len(mine)])
    return {"told apart": round(float((own[:, None] > other).mean()), 3)}


def of_bits(run, population):
    """How many rows there are of each kind."""
    d = population.features
    kinds = (np.arange(2 ** (d + 1))[:, None] >> np.arange(d + 1) & 1).astype(float)
    told = counted(run.known, run.prepared(kinds)).reshape(2, -1)
    of = lambda rows: np.bincount((rows @ 2 ** np.arange(d + 1)).astype(int), minlength=len(kinds))
    true, whole = of(run.rows).reshape(2, -1), np.rint(told)
    guessed = of(population.draw(len(run.rows))).reshape(2, -1)
    alike = lambda one, other: int(np.minimum(one, other).sum())
    few = (true.sum(axis=0) > 0) & (true.sum(axis=0) < 5)
    right = np.rint(told.sum(axis=0)) == true.sum(axis=0)
    return {
        "numbers": sum(len(numbers(one.answer)) for one in run.known.heard),
        "counted": alike(np.rint(told.sum(axis=0)), true.sum(axis=0)),
        "by chance": alike(guessed.sum(axis=0), true.sum(axis=0)),
        "with labels": alike(whole, true),
        "rare": int(few.sum()),
        "told": int((few & right).sum()),
    }


SMALL, USUAL = 50, 2000
CASES = {
    "Newton, small": (of_numbers, SMALL, 7, NEWTON, False),
    "Newton, small, sum of three": (of_numbers, SMALL, 7, NEWTON, True),
    "Newton and standard errors, small": (of_numbers, SMALL, 7, INFERENCE, False),
    "Algorithm 1, small": (of_numbers, SMALL, 7, FIRST_ORDER, False),
    "Newton, usual": (of_many, USUAL, 10, NEWTON, False),
    "Algorithm 1, usual": (of_many, USUAL, 10, FIRST_ORDER, False),
    "0 or 1, Newton, small": (of_bits, SMALL, 7, NEWTON, False),
    "0 or 1, Newton, small, sum of three": (of_bits, SMALL, 7, NEWTON, True),
    "0 or 1, Algorithm 1, small": (of_bits, SMALL, 7, FIRST_ORDER, False),
    "0 or 1, path, small": (of_bits, 180, 7, PATH, False),
    "0 or 1, Newton, usual, 5 features": (of_bits, USUAL, 5, NEWTON, False),
    "0 or 1, Newton, usual, 5 features, sum of three": (of_bits, USUAL, 5, NEWTON, True),
    "0 or 1, Newton, usual": (of_bits, USUAL, 10, NEWTON, False),
}


def main() -> None:
    logging.disable(logging.CRITICAL)
    os.fsync = lambda handle: None  # nothing here is about power loss
    found, about = {}, {"command": "python -m benchmarks.curious", "seeds": list(SEEDS)}
    for name, (measure, rows, features, asked, together) in CASES.items():
        told = []
        for seed in SEEDS:
            population = Population(features, measure is of_bits, seed)
            with tempfile.TemporaryDirectory() as folder:
                run = ran(Path(folder, "field"), population, rows, asked, together)
                told.append({"rows": len(run.rows), "features": features})
                told[-1] |= measure(run, population)
        found[name] = {key: [one[key] for one in told] for key in told[0]}
        print(name, found[name], flush=True)
        write_text(OUT, json.dumps(about | {"runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
