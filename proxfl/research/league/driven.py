"""Entrants that decide for themselves when to talk, as `proxfl train` runs them.

There is nothing to tune about them. They count as everybody does: every exchange, the bytes of one
client, and its gradients. Losses at other points count as a gradient each, and a Hessian as one for
each of its columns, for that is what its product with a vector costs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.flatten_util import ravel_pytree

from proxfl.drawing.plots import Frame
from proxfl.engine.measure import Snapshot
from proxfl.losses import as_loss
from proxfl.points import Point, dtype, size
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.research.league.draws import Draw
from proxfl.research.league.entrants import Driven
from proxfl.train.drivers.driver import Settings
from proxfl.train.federation import Federation
from proxfl.train.local import LocalFederation, total
from proxfl.train.tasks import SHORTER

TOLERANCE = 1e-12  # of a certificate, beyond what a league calls exact


def may_drive(entrant: Driven, draw: Draw) -> bool:
    """Whether it is a convex problem of its size in float64, with all rows at hand."""
    problem = draw.problem
    convex = as_loss(problem.loss).convex and bool(np.isinf(problem.g.step_limit))
    whole = problem.batch is None and draw.cohort is None
    if not (convex and whole and dtype(problem.x0) == np.float64):
        return False
    return size(problem.x0) in entrant.sizes and (not entrant.alone or alone(problem))


def alone(problem: Problem) -> bool:
    """Whether the prox of some coefficients does not depend on others, by points of all scales.

    No regulariser says so of itself.
    """
    with precision(np.float64):
        flat, as_point = ravel_pytree(problem.x0)
        drawn, half = jax.random.normal(jax.random.key(0), flat.shape), len(flat) // 2
        near = lambda v: ravel_pytree(problem.g.prox(as_point(v), jnp.ones(())))[0][:half]
        same = lambda scale: near(scale * drawn) == near(scale * drawn.at[half:].set(0))
        return bool(jnp.all(jax.lax.map(same, jnp.geomspace(1e-4, 1e4, 9))))


def driven(entrant: Driven, draws: Sequence[Draw], rounds: int) -> Frame:
    """A row per draw and exchange, with what a client had spent by then; see `standings.Entry`.

    All draws have as many rows: one that is done stays where it is. The last of them stays for a
    tenth of the exchanges, by which a league judges.
    """
    with precision(np.float64):
        seen = [one_draw(entrant, draw, rounds) for draw in draws]
    longest = 1 + math.ceil((max(map(len, seen)) - 1) / 0.9)
    tables = []
    for seed, rows in enumerate(seen):
        padded = rows + [rows[-1]] * (longest - len(rows))
        tables.append(pd.DataFrame(padded).assign(seed=seed, exchange=np.arange(longest)))
    return pd.concat(tables, ignore_index=True)


def one_draw(entrant: Driven, draw: Draw, rounds: int) -> list[dict[str, float]]:
    """What it showed before its first exchange and after each of them."""
    federation = LocalFederation(draw.problem, draw.shards)
    counted = Counted(federation)
    settings = Settings(rounds=rounds, tol=TOLERANCE)
    driver = entrant.driver(counted, draw.problem, np.asarray(draw.shards.weight), settings)
    state, rows, done = driver.begin(), [], False
    while True:
        made = total(federation.ledger)
        told = look(draw.problem, draw.shards, draw.observe, driver.model(state))
        rows.append({name: float(value) for name, value in told.items()})
        rows[-1] |= {
            "bytes_up": made.up / len(federation.sites),
            "bytes_down": made.down / len(federation.sites),
            "gradients": counted.gradients,
        }
        if done or driver.obstacle(state) or made.exchanges >= rounds:
            return rows
        state, record = driver.one_round(state)
        done = bool(record.counted) and record.optimality <= TOLERANCE


class Counted(Federation):
    """A federation whose sites' work on questions is counted, in gradients of one of them."""

    def __init__(self, inner: Federation):
        self.inner, self.gradients = inner, 0

    @property
    def sites(self) -> tuple[str, ...]:
        return self.inner.sites

    def ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        answers = self.inner.ask(task, payload)
        curved = answers[self.sites[0]].get("hessian", np.zeros(0)).size
        columns = int((2 * curved) ** 0.5)  # of an upper triangle of so many numbers
        self.gradients += 1 + len(SHORTER) + columns
        return answers

    def visit(self, algorithm: Any, call: Any, down: Any, exact: Any = None) -> Any:
        raise NotImplementedError("entrants that visit clients are simulated")


@jax.jit
def look(problem: Problem, shards: Shard, observe: Mapping[str, Any], x: Point) -> dict[str, Any]:
    seen = Snapshot(problem, shards, x, None, None, None, {})
    return {name: observer(seen) for name, observer in observe.items()}
