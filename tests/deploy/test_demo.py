"""The demo ends with the model of train, and leaves no process behind, also when interrupted."""

import random
import time

import pytest

from tests.deploy.processes import commands, processes

pytestmark = pytest.mark.soak


def test_the_demo_ends_with_the_same_model(tmp_path):
    with commands(tmp_path) as start:
        demo = start("demo", "--sites", 3, "--out", tmp_path / "demo")
        assert demo.ended(600) == 0, demo.said
    assert "The models are the same." in demo.said and "Converged after" in demo.said
    assert not processes(tmp_path)


@pytest.mark.parametrize("seconds", [(1, 5), (5, 15), (15, 30), (30, 60)], ids=str)
def test_an_interrupted_demo_leaves_no_process_behind(seconds, tmp_path):
    moment = random.SystemRandom().uniform(*seconds)
    print("moment", moment)
    with commands(tmp_path) as start:
        demo = start("demo", "--sites", 3, "--out", tmp_path / "demo")
        time.sleep(moment)
        assert demo.stop() in (0, 130), demo.said
    assert not processes(tmp_path)
