"""Kill -9 at random moments, of every part and of all at once: the model is the same bit for bit.

Minutes long, so it runs under `make soak` and not with the other tests. A failure prints its seed.
"""

import json
import os
import random
import shutil
import signal
import time
from collections import Counter

import pandas as pd
import pytest

from proxfl.deploy.ops.home import read_json
from proxfl.deploy.transport.flower.site import NOT_LET_IN
from proxfl.storage.files import write_text
from tests.cli.world import proxfl
from tests.deploy.field import NAMES, Field
from tests.deploy.processes import Deployment, commands, kill, until
from tests.deploy.test_sums_deployed import meet
from tests.outcomes import soak

# Newton's method would be done before all of the kills are.
PROBLEM = {"target": "y", "loss": "logistic", "l1": 0.02, "algorithm": "decoupled", "rounds": 8}


def kill_program(there):
    os.kill(read_json(there.home.status, "")["pid"], signal.SIGKILL)
    return 1


def kill_sites(there):
    return sum(kill(there.folder / f"at-{name}", "site") for name in NAMES)


def kill_server(there):
    return kill(there.home.server, "superlink") + kill(there.home.server, "gate")


VICTIMS = {
    "one site": lambda there: kill(there.folder / "at-south", "site"),
    "all sites": kill_sites,
    "the program": kill_program,
    "the server": kill_server,
    "everything": lambda there: kill_sites(there) + kill_server(there),
}


def killed(folder, seed):
    """How many processes of a deployment were killed that ended with the right model after all."""
    print("seed", seed)
    rng, field = random.Random(seed), Field(folder / "twin", **PROBLEM)
    victim, number = list(VICTIMS.values())[seed % len(VICTIMS)], 0
    with commands(folder) as start:
        there = Deployment(folder, start, field.files, **PROBLEM)
        there.serve()
        for name in NAMES:
            there.join(name)
            there.let_in(name)
            there.server.wait_for(f"Site {name} is let in.")
        run = start("run", there.home.folder)
        for r in (1, 3, 5):
            until(lambda r=r: there.rounds() >= r or run.process.poll() is not None)
            time.sleep(rng.uniform(0.0, 3.0))
            number += victim(there) if run.process.poll() is None else 0
        run.ended(600)
        while "Not converged after 8 rounds" not in run.said:
            there.server.wait_for("Stop it with Ctrl-C")
            run = start("resume", there.home.folder)
            run.ended(600)
            time.sleep(1.0)
    field.run("straight")
    wanted = (folder / "twin" / "straight" / "model.json").read_bytes()
    assert (there.home.folder / "results" / "model.json").read_bytes() == wanted
    return Counter({"processes killed": number, "runs with the same model": 1})


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:Not converged")
def test_whatever_is_killed_the_model_is_that_of_an_undisturbed_run(tmp_path):
    soak("kills_deployed", range(15), 1, lambda seeds: killed(tmp_path / str(seeds[0]), seeds[0]))


def path_of_sites(tmp_path):
    """Masked, with a site and the server's program killed on the way, and in the clear."""
    field = Field(tmp_path / "twin")
    with commands(tmp_path) as start:
        there = Deployment(tmp_path, start, field.files, target="y", loss="squared")
        home, few = there.home, ("--points=3", "--folds=3", "--ratio=0.1")
        there.serve()
        for name in NAMES:
            there.join(name)
            policy = there.site(name) / "policy.toml"
            write_text(policy, policy.read_text().replace('"train",', '"train", "path",'))
            there.let_in(name)
            there.server.wait_for(f"Site {name} is let in.")
        about = ("--target", "y", "--loss")
        run = start("path", home.folder, "masked", *about, "logistic", *few)
        assert run.ended() == 3 and "a person there compares" in run.said, run.said
        for name in NAMES:
            others = [other for other in NAMES if other != name]
            at = (there.folder / f"at-{name}", "--site", name)
            assert proxfl("federate", "members", *at, "--compared", *others).code == 0
        run = start("run", home.folder, "masked")
        steps = home.folder / "results-masked" / "exchanges"
        until(lambda: len(list(steps.glob("[!.]*"))) > 4 or run.process.poll() is not None)
        kill(there.folder / "at-south", "site")
        os.kill(read_json(home.status, "")["pid"], signal.SIGKILL)
        assert run.ended() == 3 and "Go on with: proxfl" in run.said, run.said
        run = start("resume", home.folder)
        assert run.ended() == 0 and "Choices" in run.said, run.said
        run = start("path", home.folder, "clear", *about, "squared", *few, "--unmasked")
        assert run.ended() == 0 and "Choices" in run.said, run.said
    for kind, loss, near in ("masked", "logistic", 1e-10), ("clear", "squared", 1e-12):
        words = [*map(str, field.files), *about, loss, *few]
        assert proxfl("path", *words, "--out", tmp_path / kind).code == 0
        there, here = home.folder / f"results-{kind}", tmp_path / kind
        for name in ("path", "coefficients", "folds"):
            pair = [pd.read_csv(at / f"{name}.csv") for at in (there, here)]
            columns = [c for c in pair[0] if "optimality" not in c and c in pair[1]]
            found, wanted = (frame[columns] for frame in pair)
            pd.testing.assert_frame_equal(found, wanted, rtol=near, atol=near)
        found, wanted = (json.loads((at / "path.json").read_text()) for at in (there, here))
        assert found["weight"] == pytest.approx(wanted["weight"], rel=near)
    return Counter({"paths as over the files": 2})


@pytest.mark.soak
def test_a_path_over_real_sites_is_that_over_their_files(tmp_path):
    soak("path_deployed", range(1), 1, lambda seeds: path_of_sites(tmp_path))


NOISE = {"eta": 0.02, "dp-clip": 1, "dp-noise": 8, "dp-delta": 1e-6, "rounds": 5}


def noised(folder):
    """A site is killed on the way; each has counted every answer once, also the one asked anew."""
    field = Field(folder / "twin")
    with commands(folder) as start:
        there = Deployment(folder, start, field.files, target="y", loss="logistic")
        there.serve()
        for name in NAMES:
            there.join(name)
            there.let_in(name)
            there.server.wait_for(f"Site {name} is let in.")
        meet(there)
        about = [f"--{key}={value}" for key, value in NOISE.items()]
        words = ("noisy", "--target=y", "--loss=squared", *about)
        assert proxfl("federate", "study", there.home.folder, *words).code == 0
        run = start("run", there.home.folder, "noisy")
        until(lambda: there.rounds() >= 2 or run.process.poll() is not None)
        kill(there.folder / "at-south", "site")
        assert run.ended(600) == 0, run.said
        model = json.loads((there.home.folder / "results-noisy" / "model.json").read_text())
        for name in NAMES:
            told = proxfl("federate", "audit", there.folder / f"at-{name}", "--site", name)
            assert told.code == 0 and "5 answers with privacy noise came to epsilon" in told.out
    assert model["privacy"]["epsilon"] > 0
    return Counter({"runs with privacy noise, counted by every site": 1})


@pytest.mark.soak
def test_real_sites_count_their_noise_and_one_that_is_killed_counts_no_answer_twice(tmp_path):
    soak("noise_deployed", range(1), 1, lambda seeds: noised(tmp_path))


def compared(there, names):
    """People at these sites have compared the words of the list that waits."""
    for name in names:
        others = [other for other in names if other != name]
        at = (there.folder / f"at-{name}", "--site", name)
        done = proxfl("federate", "members", *at, "--compared", *others)
        assert done.code == 0, done.err


def come_and_gone(folder):
    """A fourth site comes, and a first one goes; nobody is started again."""
    field, four = Field(folder / "twin"), (*NAMES, "east")
    with commands(folder) as start:
        there = Deployment(folder, start, field.files, target="y", loss="logistic")
        home, server = there.home, there.serve()
        joined = {name: there.join(name) for name in NAMES}
        for name in NAMES:
            there.let_in(name)
            server.wait_for(f"Site {name} is let in.")
        for at in (home.folder, *(there.folder / f"at-{name}" for name in NAMES)):
            assert proxfl("federate", "members", at, "--add", "east").code == 0
        joined["east"] = there.join("east", shutil.copy(field.files[0], folder / "east.csv"))
        there.let_in("east")
        server.wait_for("Site east is let in.")
        for study, names in ("four", four), ("three", ("north", "west", "east")):
            words = (study, "--target=y", "--loss=logistic", "--l2=0.1")
            assert proxfl("federate", "study", home.folder, *words).code == 0
            run = start("run", home.folder, study)
            assert run.ended(600) == 3 and "a person there compares" in run.said, run.said
            compared(there, names)
            run = start("run", home.folder, study)
            assert run.ended(600) == 0, run.said
            if study == "four":
                done = proxfl("federate", "members", home.folder, "--remove", "south")
                assert done.code == 0, done.err
                joined["south"].wait_for(NOT_LET_IN.format(key="south.pub"))
        assert all(site.process.poll() is None for site in (server, *joined.values()))
    return Counter({"members that came": 1, "members that went": 1})


@pytest.mark.soak
def test_members_come_and_go_and_no_process_is_started_again(tmp_path):
    soak("members_deployed", range(1), 1, lambda seeds: come_and_gone(tmp_path))
