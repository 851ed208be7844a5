"""`simulate(masked=True)` is the deployed masked run, bit for bit."""

import dataclasses

import jax
import numpy as np
import pytest

import proxfl as px
from proxfl.engine.measure import ObjectiveValue
from proxfl.precision import precision
from proxfl.problem import Problem
from proxfl.train.agreement import problem_of, shards_for
from proxfl.train.train import read_tables
from tests import cases
from tests.deploy.field import LOOSE, Field

METHODS = {"mime": {"eta": 0.05}, "proxskip": {"eta": 0.05, "local_steps": 3, "seed": 5}}


def simulated(field, fit, **options):
    """The study of a field in the simulator, from its rows and from what its sites agreed on."""
    spec = field.spec.replace(sites=[str(file) for file in field.files])
    with precision(np.float64):
        arranged = [
            shards_for(spec, [table], fit.agreement, np.ones(1)) for table in read_tables(spec)
        ]
        sites = [jax.tree.map(lambda a: np.asarray(a[0]), shard.examples) for shard in arranged]
        problem: Problem = problem_of(spec, fit.agreement)
        about = fit.solution.state.algorithm, problem, sites
        how = {"weights": spec.weights, "seed": spec.seed, "every": 3, "progress": False}
        return px.simulate(*about, rounds=spec.rounds, **how, **options)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_the_simulator_with_the_same_sums_is_the_deployed_run_bit_for_bit(name, tmp_path):
    options = {"algorithm": name, "rounds": 6, "l1": 0.0, "standardise": True} | METHODS[name]
    field = Field(tmp_path, masked=True, policy=LOOSE.replace(unmasked=False), **options)
    field.confirm()
    field.propose()
    there = field.life().run()
    here, plain = (simulated(field, there, masked=masked) for masked in (True, False))
    for deployed, one, near in zip(
        jax.tree.leaves((there.solution.state.server, there.solution.x)),
        *(jax.tree.leaves((run.run.server, run.model)) for run in (here, plain)),
        strict=True,
    ):
        assert np.asarray(deployed).tobytes() == np.asarray(one).tobytes()
        np.testing.assert_allclose(one, near, rtol=1e-10, atol=1e-10)
    assert here.history.keys() == plain.history.keys()
    np.testing.assert_array_equal(here.history["round"], plain.history["round"])
    np.testing.assert_allclose(here.history["objective"], plain.history["objective"], rtol=1e-10)


def test_a_masked_simulation_goes_on_to_the_same_bits_and_stops_where_it_should():
    objective = {"objective": ObjectiveValue()}
    how = {"masked": True, "observe": objective, "progress": False}
    about = (px.Decoupled(0.05, 1.5, 3), cases.problem(), cases.sites(3, (7, 7, 7)))
    whole = px.simulate(*about, rounds=6, every=2, **how)
    half = px.simulate(*about, rounds=3, **how)
    rest = px.simulate(*about, rounds=3, run=half.run, **how)
    assert np.asarray(rest.model).tobytes() == np.asarray(whole.model).tobytes()
    assert whole.history["round"].tolist() == [0, 2, 4, 6]
    bound = whole.history["objective"][2]
    stopped = px.simulate(*about, rounds=6, every=2, until={"objective": bound}, **how)
    assert stopped.met and stopped.history["round"].tolist() == [0, 2, 4]
    with pytest.raises(px.DivergenceError, match="no longer finite"):
        px.simulate(px.Decoupled(1e30, 1.5, 3), *about[1:], rounds=6, **how)


@pytest.mark.parametrize(
    ("algorithm", "options", "words"),
    [
        (px.FedAvg(0.1), {"cohort": 2}, "all clients and all of their rows"),
        (px.FedAvg(0.1), {"batch": 4}, "all clients and all of their rows"),
        (px.FedAvg(0.1), {"x0": np.zeros(cases.D, np.float32)}, "double precision, got an x0 of"),
        (px.Compressed(px.FedAvg(0.1), px.TopK(2)), {}, "Compressed compresses"),
    ],
)
def test_what_masks_do_not_go_with_is_refused_in_the_simulator_too(algorithm, options, words):
    cohort = options.pop("cohort", None)
    problem = dataclasses.replace(cases.problem(), **options)
    with pytest.raises(ValueError, match=words):
        px.simulate(algorithm, problem, cases.sites(), rounds=1, cohort=cohort, masked=True)
