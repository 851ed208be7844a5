"""Kill -9 at random moments, of every part and of all at once: the model is the same bit for bit.

Minutes long, so it runs under `make soak` and not with the other tests. A failure prints its seed.
"""

import os
import random
import signal
import time

import pytest

from proxfl.deploy.ops.home import read_json
from proxfl.report import page
from tests.deploy.field import NAMES, Field
from tests.deploy.processes import Deployment, commands, kill, until

pytestmark = pytest.mark.soak

PROBLEM = {"target": "y", "loss": "logistic", "l1": 0.02, "rounds": 8}


def kill_program(there):
    os.kill(read_json(there.home.status, "")["pid"], signal.SIGKILL)


def kill_sites(there):
    for name in NAMES:
        kill(there.folder / f"at-{name}", "site")


def kill_server(there):
    kill(there.home.server, "superlink")
    kill(there.home.server, "gate")


VICTIMS = {
    "one site": [lambda there: kill(there.folder / "at-south", "site")],
    "all sites": [kill_sites],
    "the program": [kill_program],
    "the server": [kill_server],
    "everything": [kill_sites, kill_server],
}


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_whatever_is_killed_the_model_is_that_of_an_undisturbed_run(victim, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "inline", lambda figure: "data:,")
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)
    rng, field = random.Random(seed), Field(tmp_path / "twin", **PROBLEM)
    with commands(tmp_path) as start:
        there = Deployment(tmp_path, start, field.files, **PROBLEM)
        there.serve()
        for name in NAMES:
            there.join(name)
            there.let_in(name)
            there.server.wait_for(f"Site {name} is let in.")
        run = start("run", there.home.folder)
        for r in (1, 3):
            until(lambda r=r: there.rounds() >= r or run.process.poll() is not None)
            time.sleep(rng.uniform(0.0, 3.0))
            for end in VICTIMS[victim] if run.process.poll() is None else ():
                end(there)
        run.ended(600)
        while "Not converged after 8 rounds" not in run.said:
            there.server.wait_for("Stop it with Ctrl-C")
            run = start("resume", there.home.folder)
            run.ended(600)
            time.sleep(1.0)
    field.run("straight")
    wanted = (tmp_path / "twin" / "straight" / "model.json").read_bytes()
    assert (there.home.folder / "results" / "model.json").read_bytes() == wanted
