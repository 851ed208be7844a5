"""One simulation over several processes, each with its own clients: the run of one process."""

import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

import proxfl as px
from tests import cases

CLIENTS, ROUNDS, HALF = 8, 5, 2
COMMON = dict(progress=False, seed=3)
# Sites are of unequal size, so that processes must agree on padding and weights.
PROGRAM = """
import os, signal, sys
import jax, numpy as np, pytest
from jax.experimental.multihost_utils import sync_global_devices
jax.config.update("jax_enable_x64", True)
k, n, port, folder, how = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
jax.distributed.initialize(f"127.0.0.1:{port}", n, k)
import proxfl as px
from tests import cases
from tests.engine.test_processes import CLIENTS, COMMON, HALF, ROUNDS, method

own = cases.sites(CLIENTS)[k * CLIENTS // n : (k + 1) * CLIENTS // n]
shards, problem = px.spread_own(own, "samples"), cases.problem(batch=3)
run, rounds, file = None, ROUNDS, f"{folder}/run-{k}.npz"
if how == "killed":
    half = px.simulate(method, problem, shards, rounds=HALF, observe={}, **COMMON)
    px.save(file, px.own_part(half.run))
    sync_global_devices("all have saved")  # no file, no resumption
    if k == n - 1:
        os.kill(os.getpid(), signal.SIGKILL)
elif how == "resumed":
    like = px.start(method, problem.normalised(), shards)
    part = px.load(file, px.own_part(like))
    with pytest.raises(ValueError, match="are not of one run at one round; give each process"):
        px.joined(part._replace(round=part.round + k), like)
    run = px.joined(part, like)
    rounds = ROUNDS - HALF
    assert run.clients.mean_grad.shape[0] == CLIENTS
result = px.simulate(method, problem, shards, rounds=rounds, run=run, **COMMON)
for leaf in jax.tree.leaves(result.run.clients):
    assert not leaf.is_fully_addressable and not leaf.is_fully_replicated
np.savez(f"{folder}/{how}-{k}.npz", model=result.model, objective=result.history["objective"])
"""

method = px.Decoupled(0.05, 1.5, 4)


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def processes(count, folder, how):
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    about = [str(count), str(free_port()), str(folder), how]
    with open(folder / "said.txt", "w") as said:
        return [
            subprocess.Popen([sys.executable, "-c", PROGRAM, str(k), *about], env=env, stderr=said)
            for k in range(count)
        ]


def ended(running):
    """How each process ended, once the last one has; those that wait for it in vain are ended.

    One that fails leaves the others waiting, and is itself held for minutes as it leaves.
    """
    try:
        last = running[-1].wait(timeout=300)
        if last == 0:
            return [process.wait(timeout=300) for process in running]
        return [last]
    except subprocess.TimeoutExpired:
        return ["still runs"]
    finally:
        for process in running:
            process.kill()
            process.wait()


def wanted():
    sites = cases.sites(CLIENTS)
    about = dict(rounds=ROUNDS, weights="samples", **COMMON)
    return px.simulate(method, cases.problem(batch=3), sites, **about)


def same(folder, how, count):
    one = wanted()
    for k in range(count):
        found = np.load(folder / f"{how}-{k}.npz")
        np.testing.assert_allclose(found["model"], one.model, atol=1e-12, rtol=0)
        last = found["objective"][-1]
        np.testing.assert_allclose(last, one.history["objective"][-1], atol=1e-12, rtol=0)


def test_four_processes_run_what_one_runs(tmp_path):
    assert ended(processes(4, tmp_path, "straight")) == [0] * 4, (tmp_path / "said.txt").read_text()
    same(tmp_path, "straight", 4)


def test_two_processes_go_on_after_one_was_killed(tmp_path):
    assert ended(processes(2, tmp_path, "killed")) == [-signal.SIGKILL]
    said = tmp_path / "said.txt"
    assert ended(processes(2, tmp_path, "resumed")) == [0, 0], said.read_text()
    same(tmp_path, "resumed", 2)


def test_in_one_process_everything_is_its_own():
    sites = cases.sites(CLIENTS)
    own, usual = px.spread_own(sites, "samples"), px.shards_of(sites, "samples")
    for a, b in zip(
        own.examples + (own.size, own.weight), (*usual.examples, *usual[1:3]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert px.own_part(own) == own and px.joined(own, own) == own
    with pytest.raises(ValueError, match="The processes hold 0 clients; give each the same number"):
        px.spread_own([])
