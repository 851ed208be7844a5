"""Whatever befalls network, disks, sites and server, by seed: the model is that of a quiet run.

Or the run stops as documented, with a state from which it goes on to that model. A failure prints
its seed and faults; `PROXFL_FAULT_SEED=123` replays one.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from proxfl.deploy.server import status
from tests.deploy.faults import Faults, until_the_end
from tests.deploy.field import Field
from tests.deploy.storms import METHODS, Storm
from tests.outcomes import PART, REST, WHOLE, soak

REPLAYED = os.environ.get("PROXFL_FAULT_SEED")


def seeds(number):
    return pytest.mark.parametrize("seed", [int(REPLAYED)] if REPLAYED else range(number))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Beats would write at any moment."""
    monkeypatch.setattr(status, "BEAT_SECONDS", 1e6)


@pytest.fixture(scope="module", params=METHODS)
def storm(request, tmp_path_factory):
    return Storm(request.param, tmp_path_factory.mktemp("storm"))


@seeds(8)
def test_a_run_with_faults_ends_as_an_undisturbed_one(storm, seed):
    storm.run(seed)


def ends_of(seeds):
    """How many runs ended how, in a process that does not check types at every call."""
    command = [sys.executable, "-m", "tests.deploy.storms", str(seeds[0]), str(seeds[-1])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return Counter(json.loads(done.stdout))


def test_a_thousand_runs_do():
    assert ends_of(range(1_000, 2_000)).total() == 1_000


@pytest.mark.soak
def test_a_hundred_thousand_runs_do():
    each, workers = 1_000, len(os.sched_getaffinity(0)) if PART in (WHOLE, REST) else 1
    with ThreadPoolExecutor(workers) as pool:
        some = lambda seeds: [seeds[i : i + each] for i in range(0, len(seeds), each)]
        run = lambda seeds: sum(pool.map(ends_of, some(seeds)), Counter())
        soak("faults", range(100_000, 200_000), each * workers, run)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The files of sites that differ, and the model of an undisturbed training."""
    field = Field(tmp_path_factory.mktemp("quiet"), l1=0.02, tol=1e-3)
    field.run()
    return (field.folder / "results" / "model.json").read_bytes()


@seeds(5)
def test_training_with_faults_ends_with_the_model_of_an_undisturbed_one(trained, seed, tmp_path):
    field, faults = Field(tmp_path, l1=0.02, tol=1e-3), Faults(seed)
    print(faults)
    until_the_end(faults, field.transport, tmp_path, lambda number: field.run())
    assert (tmp_path / "results" / "model.json").read_bytes() == trained, faults


def test_the_same_seed_gives_the_same_faults():
    frames = [bytes([i]) * 50 for i in range(200)]
    run = lambda faults: [faults.fate("up", "a", frame) for frame in frames]
    assert run(Faults(1)) == run(Faults(1)) != run(Faults(2))
