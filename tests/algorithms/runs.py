"""Runs that several tests of methods make."""

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from proxfl.engine import measure
from proxfl.engine.round import simulated_round
from proxfl.prox import Zero
from tests import cases

# Identities hold in exact arithmetic; over 30 rounds rounding stays within a few hundred eps.
CLOSE = dict(atol=1e-12, rtol=0)

# What differs between runs in numbers only shares one program.
next_run = jax.jit(lambda *about: simulated_round(*about)[0])


def models(algorithm, problem, sites, rounds, **options):
    """The model reported after every round."""
    shards, seen = px.shards_of(sites, **options), []
    algorithm, problem = jax.tree.map(jnp.asarray, (algorithm, problem))
    run = px.start(algorithm, problem, shards)
    for _ in range(rounds):
        run = next_run(algorithm, problem, shards, run)
        seen.append(np.asarray(algorithm.output(problem.g, run.server)))
    return seen


def solution(problem, sites, **options):
    """The optimum, by many proximal gradient steps."""
    step = px.ProximalGradient(0.1)
    result = px.simulate(
        step,
        problem,
        sites,
        rounds=200_000,
        until={"certificate": 1e-14},
        observe={"certificate": measure.Stationarity()},
        every=100,
        **options,
    )
    return result.model


def smooth(batch=None):
    """Logistic regression without a regulariser."""
    return px.Problem(g=Zero(), x0=np.zeros(cases.D), loss=cases.problem().loss, batch=batch)


def from_afar(problem):
    """The same problem from a point that is no fixed point of the prox."""
    return px.Problem(problem.g, np.linspace(-0.4, 0.7, cases.D), problem.loss, problem.batch)


def same(one, other, problem, rounds=30):
    sites = cases.sites()
    np.testing.assert_allclose(
        models(one, problem, sites, rounds), models(other, problem, sites, rounds), **CLOSE
    )
