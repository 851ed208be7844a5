"""Whatever befalls network, sites and server, by seed: the model is that of an undisturbed run.

Or the run stops as documented, with a state from which it goes on to that model. A failure prints
its seed and faults; `PROXFL_FAULT_SEED=123` replays one.
"""

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.memory import undisturbed
from proxfl.report import page
from proxfl.train.federation import Call
from tests import cases
from tests.deploy.faults import Faults, ServerCrash
from tests.deploy.field import Field
from tests.deploy.world import World, drive

ROUNDS, SITES, LIVES = 5, 3, 20
REPLAYED = os.environ.get("PROXFL_FAULT_SEED")


def seeds(number):
    return pytest.mark.parametrize("seed", [int(REPLAYED)] if REPLAYED else range(number))


@pytest.fixture(scope="module", params=["decoupled", "partial", "cohort"])
def law(request, tmp_path_factory):
    """A small world, and where it ends undisturbed."""
    kinds = {"decoupled": px.Decoupled, "partial": px.DecoupledPartial}
    algorithm = kinds.get(request.param, px.DecoupledPartial)(0.05, 1.5, 2)
    options = {"cohort": 2} if request.param == "cohort" else {}
    world = lambda name: World(
        tmp_path_factory.mktemp(name), algorithm, cases.problem(), cases.sites(SITES)
    )
    quiet = world("quiet")
    problem = jax.tree.map(jnp.asarray, quiet.problem)
    straight = drive(quiet.federation(**options), algorithm, problem, ROUNDS)
    return world, algorithm, problem, options, straight


class Checkpoint(NamedTuple):
    """What a server has on its disk after a round."""

    server: jax.Array
    standing: dict
    round: int


def live(world, transport, algorithm, problem, options, epoch, disk):
    """One life of a server, from the checkpoint on the `disk` to the end or to its own."""
    federation = world.federation(transport, epoch=epoch, standing=disk[-1].standing, **options)
    server = disk[-1].server
    for r in range(disk[-1].round, ROUNDS):
        answers = federation.visit(algorithm, Call(r, r - 1, r, 0), server)
        server = algorithm.server(problem.g, server, answers.received)
        disk.append(Checkpoint(server, federation.standing_after(r), r + 1))


def until_the_end(faults, transport, life):
    """Life after life of a server, until one ends well; a documented stop ends the faults too."""
    for number in range(LIVES):
        try:
            return life(number)
        except ServerCrash:
            pass
        except TooFewSites as stop:
            assert "Nothing is lost" in str(stop)
            transport.fate, transport.moment = undisturbed, lambda: None
    raise AssertionError(f"The run does not end: {faults}")


def ends_as_undisturbed(law, seed):
    make, algorithm, problem, options, straight = law
    world, faults = make("world"), Faults(seed)
    print(faults)
    transport = world.network(faults.fate, faults.moment)
    first = algorithm.init(problem.g, problem.x0)[0]
    disk = [Checkpoint(first, {}, 0)]
    life = lambda epoch: live(world, transport, algorithm, problem, options, epoch, disk)
    until_the_end(faults, transport, life)
    for found, wanted in zip(
        jax.tree.leaves(disk[-1].server), jax.tree.leaves(straight), strict=True
    ):
        np.testing.assert_array_equal(found, wanted, err_msg=repr(faults))


@seeds(40)
def test_a_run_with_faults_ends_as_an_undisturbed_one(law, seed):
    ends_as_undisturbed(law, seed)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_more_runs_do(law, block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        ends_as_undisturbed(law, seed)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The files of sites that differ, and the model of an undisturbed training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "inline", lambda figure: "data:,")
        field = Field(tmp_path_factory.mktemp("quiet"), l1=0.02, tol=1e-3)
        field.run()
        yield (field.folder / "results" / "model.json").read_bytes()


@seeds(12)
def test_training_with_faults_ends_with_the_model_of_an_undisturbed_one(trained, seed, tmp_path):
    field, faults = Field(tmp_path, l1=0.02, tol=1e-3), Faults(seed)
    print(faults)
    field.transport.fate, field.transport.moment = faults.fate, faults.moment
    until_the_end(faults, field.transport, lambda number: field.run())
    assert (tmp_path / "results" / "model.json").read_bytes() == trained, faults


def test_the_same_seed_gives_the_same_faults():
    frames = [bytes([i]) * 50 for i in range(200)]
    run = lambda faults: [faults.fate("up", "a", frame) for frame in frames]
    assert run(Faults(1)) == run(Faults(1)) != run(Faults(2))
