"""Noise that a site adds cannot be drawn again by whoever knows the seed, nor averaged away."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import Header
from proxfl.deploy.server.federation import settings_of
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.site.noise import BYTES, FILE
from proxfl.storage.sealed import read_sealed
from tests import cases
from tests.deploy.world import SEED, World, deployed

NOISY = {
    "Private": px.Private(px.Decoupled(0.05, 1.5, 2), 1.0, 0.5),
    "Compressed": px.Compressed(
        px.Private(px.DecoupledPartial(0.05, 1.5, 2), 1.0, 0.5), px.TopK(2)
    ),
    "DPSpider": px.DPSpider(0.3, 1.0, 0.5, 0.5),
}
each = pytest.mark.parametrize("name", NOISY)


def visit(world, step=0, round=0, shift=0.0, **numbers):
    """What site-1 sends up when asked for the first time, in some step and round."""
    algorithm, problem = world.algorithm, world.problem
    settings = settings_of(algorithm, algorithm) | {
        name: np.asarray(value) for name, value in numbers.items()
    }
    g, x0 = problem.g, jnp.asarray(problem.x0) + shift
    down = algorithm.exchanges()[0].broadcast(g, algorithm.init(g, x0)[0])
    header = Header(wire.VISIT, wire.tag(world.name), 1, step, wire.NEVER, round, 0)
    payload = {jax.tree_util.keystr(p) or "value": np.asarray(a) for p, a in leaves(down)}
    return wire.decode(world.worker(1).answer(wire.encode(header, settings, payload)))


def leaves(tree):
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def sent(answer):
    assert answer.header.kind == wire.UPLINK, answer.payload
    return np.concatenate([np.ravel(value) for value in answer.payload.values()])


@each
def test_a_sites_noise_is_its_own_and_the_same_only_for_the_same_question(name, tmp_path):
    world = World(tmp_path / "a", NOISY[name])
    first = sent(visit(world))
    np.testing.assert_array_equal(first, sent(visit(world)))  # asked again: the stored reply
    np.testing.assert_array_equal(first, sent(visit(world, step=5)))  # in a new life of the server
    assert not np.array_equal(first, sent(visit(world, step=6, round=1)))
    secret = tmp_path / "a" / "site-1" / FILE
    assert len(read_sealed(secret)) == BYTES and secret.stat().st_mode & 0o777 == 0o600
    other = World(tmp_path / "b", NOISY[name])  # the same data, seed and question
    assert not np.array_equal(first, sent(visit(other)))


def test_two_questions_about_one_round_do_not_carry_the_same_noise(tmp_path):
    """If they did, their difference would carry none, and the server could ask for it."""
    quiet = World(tmp_path / "quiet", px.Private(px.Decoupled(0.05, 1.5, 2), 1e9, 0.0))
    noisy = World(tmp_path / "noisy", px.Private(px.Decoupled(0.05, 1.5, 2), 1e9, 1e-9))
    change = lambda world: sent(visit(world, 0)) - sent(visit(world, 1, shift=0.01))
    assert np.abs(change(noisy) - change(quiet)).min() > 1e-3  # noise of deviation 1, twice


@each
def test_no_task_is_answered_without_noise(name, tmp_path):
    world = World(tmp_path, NOISY[name])
    with pytest.raises(TooFewSites, match="adds noise to what it tells, and the"):
        world.federation().ask("evaluate", {"x": jnp.zeros(cases.D)})


@each
def test_the_server_cannot_change_what_protects_a_site(name, tmp_path):
    world = World(tmp_path, NOISY[name])
    protects = [key for key in settings_of(world.algorithm, world.algorithm) if ".clip" in key]
    protects += [k for k in settings_of(world.algorithm, world.algorithm) if "noise_mult" in k]
    assert len(protects) >= 2
    for key in protects:
        refused = visit(world, **{key: 0.4})
        assert refused.header.kind == wire.REFUSAL
        assert "is not the server's to change" in refused.payload["reason"]


def test_without_noise_at_the_client_the_key_is_the_simulators(tmp_path):
    silent, server_side = (
        px.Private(px.Decoupled(0.05, 1.5, 2), 1.0, noise, at=at)
        for at, noise in (("client", 0.0), ("server", 0.5))
    )
    assert not silent.client_noise and not server_side.client_noise
    world = World(tmp_path, server_side)
    server, _ = deployed(world, 3)
    wanted = px.simulate(server_side, world.problem, world.shards, rounds=3, seed=SEED, observe={})
    np.testing.assert_allclose(server, wanted.run.server, atol=1e-12)
