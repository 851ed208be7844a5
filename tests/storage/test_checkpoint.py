"""A checkpoint is one file, whole, and nothing but arrays."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.storage.files import whole
from tests import cases


@pytest.fixture
def run():
    return px.simulate(px.Decoupled(0.1), cases.problem(), cases.sites(), rounds=3).run


def test_what_was_saved_comes_back_bit_for_bit(run, tmp_path):
    px.save(tmp_path / "run.npz", run)
    back = px.load(tmp_path / "run.npz", jax.tree.map(lambda a: a, run))
    assert jax.tree.structure(run) == jax.tree.structure(back)
    np.testing.assert_array_equal(jax.random.key_data(run.key), jax.random.key_data(back.key))
    np.testing.assert_array_equal(run.clients.mean_grad, back.clients.mean_grad)
    assert back.server.dtype == run.server.dtype


def test_the_file_holds_no_pickle(run, tmp_path):
    px.save(tmp_path / "run.npz", run)
    with np.load(tmp_path / "run.npz", allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored.files)


def test_a_file_of_another_run_is_refused(run, tmp_path):
    px.save(tmp_path / "run.npz", run)
    other = run._replace(server=jnp.zeros(cases.D + 1))
    with pytest.raises(ValueError, match="server.*expected"):
        px.load(tmp_path / "run.npz", other)
    with pytest.raises(ValueError, match="other leaves"):
        px.load(tmp_path / "run.npz", run._replace(clients=None))


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "kept.bin"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), whole(path) as file:
        file.write(b"half of the n")
        raise RuntimeError("power cut")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept.bin"]
