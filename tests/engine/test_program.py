"""What a change must not do to the compiled program, in counts that depend on no machine."""

import jax
import numpy as np
import pytest

import proxfl as px
from proxfl.engine import measure
from proxfl.engine.round import simulated_round, start
from proxfl.points import norm
from proxfl.pytree import pytree
from tests import cases


def program(clients=8, tau=2, block=None, algorithm=None):
    """One round, of Algorithm 1 unless another is given, compiled."""
    shards = px.shards_of(cases.sites(clients=clients, rows=(10,)))
    problem = jax.tree.map(jax.numpy.asarray, cases.problem())
    algorithm = algorithm or px.Decoupled(0.05, 1.5, tau)
    step = lambda shards, run: simulated_round(algorithm, problem, shards, run, block=block)
    run = start(algorithm, problem, shards)
    return jax.jit(step, donate_argnums=1).lower(shards, run).compile()


def instructions(compiled):
    return sum(" = " in line for line in compiled.as_text().splitlines())


def test_its_size_depends_neither_on_the_clients_nor_on_the_local_steps():
    sizes = [instructions(program(clients=n, tau=tau)) for n, tau in ((8, 3), (64, 3), (8, 40))]
    np.testing.assert_allclose(sizes, sizes[0], rtol=0.15)


BLOCKED = [
    px.Decoupled(0.05, 1.5, 2),  # one of whose vectors is written without being read
    px.Accelerated(px.Decoupled(0.05, 1.5, 2), 3),
    px.Compressed(px.DecoupledPartial(0.05, 1.5, 2), px.TopK(2)),
    px.FedDR(0.4, 0.05, 2, 1.5),
]


@pytest.mark.parametrize("algorithm", BLOCKED, ids=lambda a: type(a).__name__)
def test_with_blocks_its_scratch_memory_does_not_grow_with_the_clients(algorithm):
    """All that clients compute on the way lives for one block, and no block copies all states."""
    few, many = (
        program(clients=n, block=8, algorithm=algorithm).memory_analysis().temp_size_in_bytes
        for n in (32, 512)
    )
    assert many - few < (512 - 32) * 8  # not even a number each


def test_client_states_are_updated_where_they_are():
    """A round allocates no second copy of what clients keep."""
    compiled = program(clients=256, block=8).memory_analysis()
    states = 2 * 256 * cases.D * 8
    assert compiled.alias_size_in_bytes >= states


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: px.Accelerated(a, 3)])
def test_new_numbers_need_no_new_program(wrap):
    traced = 0

    @jax.jit
    def step(algorithm, problem, shards, run):
        nonlocal traced
        traced += 1
        return simulated_round(algorithm, problem, shards, run)

    shards = px.shards_of(cases.sites())
    for eta, theta in ((0.05, 0.1), (0.1, 0.1), (0.1, 0.2)):
        algorithm, problem = wrap(px.Decoupled(eta, 1.5, 2)), cases.problem(theta)
        step(algorithm, problem, shards, start(algorithm, problem, shards))
    assert traced == 1


def test_one_program_makes_all_observations_of_a_run_the_first_included():
    traced = 0

    @pytree
    class Norm(measure.Observer):
        def __call__(self, seen):
            nonlocal traced
            traced += 1
            return norm(seen.x)

    about = px.Decoupled(0.05, 1.5, 2), cases.problem(), cases.sites()
    result = px.simulate(*about, rounds=5, every=2, observe={"norm": Norm()})
    assert traced == 1 and result.history["round"].tolist() == [0, 2, 4, 5]
    assert result.history["norm"][0] == 0 < result.history["norm"][1]
