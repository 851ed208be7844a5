"""Whoever is asked to stop does, wherever it is, and leaves no process behind."""

import random
import signal
import time
from collections import Counter

import pytest

from tests.deploy.field import write_data
from tests.deploy.processes import STOPPING, Deployment, commands, processes
from tests.outcomes import soak

# Stopped on purpose, interrupted, or by the signal itself before there was anything to end.
STOPPED = {0, 130, -signal.SIGINT, -signal.SIGTERM}


def stop_somewhere(folder, seed, longest):
    """How long server and site took to stop, at a moment and by signals drawn from the seed."""
    rng = random.Random(seed)
    print("seed", seed)
    with commands(folder) as start:
        there = Deployment(folder, start, write_data(folder / "data"), target="y", loss="huber")
        started = [there.serve(), there.join("north")]
        if rng.random() < 0.5:
            there.let_in("north")
        time.sleep(rng.uniform(0.0, longest))
        asked = time.monotonic()
        for command in started:
            number = rng.choice((signal.SIGINT, signal.SIGTERM))
            for _ in range(rng.randint(1, 3)):
                command.process.send_signal(number)
        for command in started:
            assert command.ended(STOPPING) in STOPPED, command.said
        took = time.monotonic() - asked
    assert not processes(folder)
    return Counter({"commands that stopped": len(started), "longest stop in seconds": took})


@pytest.mark.parametrize("seed", range(3))
def test_server_and_site_stop_at_any_moment(seed, tmp_path):
    stop_somewhere(tmp_path, seed, longest=8.0)


@pytest.mark.soak
def test_server_and_site_stop_at_many_more_moments(tmp_path):
    def run(seeds):
        (tmp_path / str(seeds[0])).mkdir()
        return stop_somewhere(tmp_path / str(seeds[0]), seeds[0], longest=20.0)

    soak("stops", range(100, 130), 1, run)


@pytest.mark.soak
@pytest.mark.parametrize("seconds", [(1, 5), (5, 15), (15, 30), (30, 60)], ids=str)
def test_an_interrupted_demo_leaves_no_process_behind(seconds, tmp_path):
    moment = random.SystemRandom().uniform(*seconds)
    print("moment", moment)
    with commands(tmp_path) as start:
        demo = start("demo", "--sites", 3, "--out", tmp_path / "demo")
        time.sleep(moment)
        assert demo.stop() in STOPPED, demo.said
    assert not processes(tmp_path)


@pytest.mark.soak
def test_the_demo_ends_with_the_same_model(tmp_path):
    with commands(tmp_path) as start:
        demo = start("demo", "--sites", 3, "--out", tmp_path / "demo")
        assert demo.ended(600) == 0, demo.said
    assert "The models are the same." in demo.said and "Converged after" in demo.said
    assert not processes(tmp_path)
