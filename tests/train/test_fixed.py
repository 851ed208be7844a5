"""Methods with fixed steps, driven over a federation, are those of the simulator."""

import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms import REGISTRY
from proxfl.losses import Squared
from proxfl.problem import Problem, shards_of
from proxfl.prox import L1
from proxfl.train.drivers.driver import Settings, solve
from proxfl.train.drivers.fixed import FixedSteps, fields, method, step_of
from proxfl.train.local import LocalFederation

D, ROUNDS = 5, 7


def plain(name, batch=None, cohort=None, **options):
    rng = np.random.default_rng(0)
    sites = [(rng.normal(size=(9 + i, D)) + i, rng.normal(size=9 + i)) for i in range(4)]
    shards = shards_of(sites, "samples")
    problem = Problem(L1(0.05), jnp.zeros(D), Squared(), batch)
    federation = LocalFederation(problem, shards, seed=3, cohort=cohort)
    settings = Settings(rounds=ROUNDS, tol=1e-300, **options)
    return FixedSteps(federation, problem, np.asarray(shards.weight), settings, name=name), shards


CASES = [(name, None, None) for name in ("mime", "feddr", "proximal-gradient")]
CASES += [("decoupled-partial", 4, 2)]


@pytest.mark.parametrize(("name", "batch", "cohort"), CASES)
def test_a_driven_method_is_the_simulated_one(name, batch, cohort):
    tau = 3 if "tau" in fields(name) else 1
    driver, shards = plain(name, batch, cohort, local_steps=tau)
    found = solve(driver)
    algorithm = driver.algorithm(found.state)
    straight = px.simulate(
        algorithm, driver.problem, shards, rounds=ROUNDS, seed=3, cohort=cohort, progress=False
    )
    np.testing.assert_allclose(found.x, straight.model, rtol=1e-12, atol=1e-14)
    assert found.records[-1].objective == pytest.approx(straight.history["objective"][-1])


@pytest.mark.parametrize("name", REGISTRY)
def test_every_method_has_safe_steps_or_is_said_to_need_more(name):
    settings = Settings(local_steps=3 if "tau" in fields(name) else 1)
    if name in ("fast-fedda", "dp-spider"):
        with pytest.raises(TypeError, match="missing"):
            method(name, settings, 1.0, 2.0)
    else:
        made = method(name, settings, 1.0, 2.0)
        assert 0 < step_of(name, made) <= 1


def test_a_cohort_costs_its_own_messages_only():
    everyone, _ = plain("decoupled-partial")
    some, _ = plain("decoupled-partial", cohort=2)
    solve(everyone), solve(some)
    full, part = (d.federation.ledger["round"] for d in (everyone, some))
    assert (2 * part.up, 2 * part.down) == (full.up, full.down) and part.exchanges == ROUNDS


@pytest.mark.parametrize("name", ["feddr", "proximal-gradient"])
def test_safe_steps_reach_a_certificate(name):
    driver, _ = plain(name, local_steps=2 if "tau" in fields(name) else 1)
    driver.settings = Settings(rounds=5000, tol=1e-3, local_steps=driver.settings.local_steps)
    found = solve(driver)
    assert found.converged and len(found.records) < 5000
    assert all(np.isnan(r.optimality) for r in found.records if r.round % 10)
