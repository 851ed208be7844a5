"""A sweep is many runs, nothing else."""

import jax.numpy as jnp
import numpy as np

import proxfl as px
from proxfl.engine.measure import ObjectiveValue
from proxfl.engine.sweep import sweep
from proxfl.losses import Squared
from proxfl.prox import L1
from tests import cases

OBSERVE = {"objective": ObjectiveValue()}


def test_every_run_of_a_sweep_equals_its_own_simulation():
    sites = cases.sites()
    shards = px.shards_of(sites)
    steps = [0.02, 0.05, 0.1]
    algorithms = [px.Decoupled(eta, 1.5, 3) for eta in steps]
    problems = [cases.problem(theta, batch=3) for theta in (0.01, 0.05, 0.2)]
    many = sweep(algorithms, problems, shards, rounds=21, every=4, observe=OBSERVE, seeds=[3, 4, 5])
    assert many.rounds.tolist() == [0, 4, 8, 12, 16, 20, 21]
    for k, (algorithm, problem) in enumerate(zip(algorithms, problems, strict=True)):
        alone = px.simulate(
            algorithm, problem, shards, rounds=21, every=4, observe=OBSERVE, seed=3 + k
        )
        np.testing.assert_allclose(many.models[k], alone.model, atol=1e-13)
        np.testing.assert_allclose(many.history["objective"][k], alone.history["objective"])


def test_data_sets_can_be_swept_too():
    algorithm, problem = px.Decoupled(0.05, 1.0, 2), cases.problem()
    shards = [px.shards_of(cases.sites(seed=seed)) for seed in range(3)]
    many = sweep([algorithm] * 3, problem, shards, rounds=10, observe=OBSERVE)
    for k, one in enumerate(shards):
        alone = px.simulate(algorithm, problem, one, rounds=10)
        np.testing.assert_allclose(many.models[k], alone.model, atol=1e-13)


def test_a_run_that_diverges_is_marked_and_spares_the_others():
    problem = px.Problem(g=L1(0.05), x0=jnp.zeros(cases.D), loss=Squared())
    shards = px.shards_of(cases.sites(labels=False))
    algorithms = [px.Decoupled(eta, 1.0, 2) for eta in (0.01, 100.0)]
    many = sweep(algorithms, problem, shards, rounds=400, every=50, observe=OBSERVE)
    assert many.diverged.tolist() == [False, True]
    assert np.isfinite(many.history["objective"][0]).all()
