"""A run that was interrupted, however and wherever, goes on to the bits of one that was not."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from proxfl.storage.checkpoint import load_about
from proxfl.train.local import LocalFederation
from tests.cli import world
from tests.cli.world import proxfl
from tests.outcomes import soak

# The command line, with a checkpoint after every round, and without figures. Before the round of
# its first argument it waits for ever: it cannot end before a signal reaches it, however fast.
PROGRAM = """
import sys, time
from proxfl.train import train
from proxfl.train.local import LocalFederation
from proxfl.report import page
train.CHECKPOINT_SECONDS = 0.0
page.inline = lambda figure: "data:,"
most, visit = int(sys.argv[1]), LocalFederation.visit
def gated(federation, algorithm, call, *about):
    while call.round >= most:
        time.sleep(0.01)
    return visit(federation, algorithm, call, *about)
LocalFederation.visit = gated
from proxfl.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
SAME = ("model.json", "history.jsonl", "model.safetensors")


def base(data):
    return ["train", data / "diabetes", "--target", "progression", "--loss", "squared"]


def same(one, other):
    return [name for name in SAME if (one / name).read_bytes() != (other / name).read_bytes()] == []


KINDS = {
    "adaptive": "--l1 0.1 --tol 1e-15 --rounds 40 --algorithm decoupled",
    "local steps": "--l1 0.1 --tol 1e-15 --rounds 40 --local-steps 3 --no-accelerate",
    "cohorts": "--l1 0.1 --rounds 25 --algorithm decoupled-partial --cohort 2 --batch 9",
    "two exchanges": "--rounds 15 --algorithm mime",
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_inside_a_round_leaves_no_trace(data, tmp_path, monkeypatch, kind):
    options, visit = KINDS[kind].split(), LocalFederation.visit
    straight = proxfl(*base(data), *options, "--out", tmp_path / "straight", "--json")
    visits = 0

    def interrupted(*args):
        nonlocal visits
        visits += 1
        answers = visit(*args)
        if visits in (10, 14, 20):
            os.kill(os.getpid(), signal.SIGTERM if visits == 14 else signal.SIGINT)
        return answers

    monkeypatch.setattr(LocalFederation, "visit", interrupted)
    folder = tmp_path / "pieces"
    outcome = proxfl(*base(data), *options, "--out", folder, "--json")
    while outcome.code == 130:
        assert outcome.out == "" and f"go on with: proxfl train --resume {folder}" in outcome.err
        assert {path.name for path in folder.iterdir()} == {"manifest.json", "checkpoint.npz"}
        outcome = proxfl("train", "--resume", folder, "--json")
    assert visits > 20 and (outcome.code, outcome.out) == (straight.code, straight.out)
    assert same(tmp_path / "straight", folder)


def test_newton_goes_on_from_an_interruption_to_the_same_bits(data, tmp_path, monkeypatch):
    told, ask, asked = "--target benign --loss logistic --l1 0.01 --json", LocalFederation.ask, 0
    begun = ["train", data / "cancer", *told.split()]
    straight = proxfl(*begun, "--out", tmp_path / "straight")

    def interrupted(federation, task, payload):
        nonlocal asked
        asked += task == "newton"
        if asked == 4:
            raise KeyboardInterrupt
        return ask(federation, task, payload)

    monkeypatch.setattr(LocalFederation, "ask", interrupted)
    assert proxfl(*begun, "--out", tmp_path / "pieces").code == 130
    outcome = proxfl("train", "--resume", tmp_path / "pieces", "--json")
    assert (outcome.code, outcome.out) == (0, straight.out)
    assert same(tmp_path / "straight", tmp_path / "pieces")


def test_an_interruption_before_the_first_round_writes_nothing(data, tmp_path, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalFederation, "ask", interrupted)
    outcome = proxfl(*base(data), "--out", tmp_path / "results")
    assert outcome.code == 130 and "nothing was written" in outcome.err
    assert not (tmp_path / "results").exists()


def test_other_data_are_refused(data, tmp_path):
    folder = tmp_path / "results"
    moved = world.write(tmp_path / "diabetes", world.diabetes(), 3)
    short = proxfl(*base(tmp_path), "--l1", "0.1", "--rounds", 1, "--out", folder)
    assert short.code == 3
    world.diabetes().iloc[5:150].to_csv(moved / "site1.csv", index=False)
    before = sorted(path.read_bytes() for path in folder.iterdir())
    outcome = proxfl("train", "--resume", folder, "--rounds", 9)
    assert outcome.code == 2 and "site 'site1' does not hold the data" in outcome.err
    assert sorted(path.read_bytes() for path in folder.iterdir()) == before


def test_a_result_that_is_being_made_longer_has_no_report_meanwhile(data, tmp_path, monkeypatch):
    folder, visit = tmp_path / "results", LocalFederation.visit
    options = ("--l1", "0.1", "--rounds", 3, "--algorithm", "decoupled")
    assert proxfl(*base(data), *options, "--out", folder).code == 3

    def interrupted(federation, algorithm, call, *about):
        if call.round == 5:
            raise KeyboardInterrupt
        return visit(federation, algorithm, call, *about)

    monkeypatch.setattr(LocalFederation, "visit", interrupted)
    assert proxfl("train", "--resume", folder, "--rounds", 9).code == 130
    outcome = proxfl("report", folder)
    assert outcome.code == 2 and "the run is not finished" in outcome.err
    (folder / "checkpoint.npz").write_bytes(b"nonsense")
    outcome = proxfl("train", "--resume", folder)
    assert outcome.code == 2 and "this is no checkpoint" in outcome.err


def begin(*args, cache, most=10**9):
    compiled = {  # so that only the first of the processes compiles
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(most), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | compiled,
    )


def rounds_in(checkpoint):
    return len(load_about(checkpoint)["records"])


def stop(process, number, checkpoint, after):
    """Send the signal once the checkpoint holds more than so many rounds."""
    limit = time.monotonic() + 300
    while not checkpoint.exists() or rounds_in(checkpoint) <= after:
        assert process.poll() is None and time.monotonic() < limit, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err, rounds_in(checkpoint)


@pytest.mark.soak  # real signals, and four processes
def test_signals_stop_a_run_and_it_goes_on_to_the_same_bits(data, tmp_path):
    cache, folder, straight = tmp_path / "cache", tmp_path / "pieces", tmp_path / "straight"
    command = [*base(data), "--l1", "0.1", "--tol", "1e-300", "--rounds", 60]
    command += ["--algorithm", "decoupled"]
    checkpoint, rounds = folder / "checkpoint.npz", 0
    run = [*command, "--out", folder]
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = begin(*run, cache=cache, most=rounds + 20)
        found, out, err, reached = stop(process, number, checkpoint, rounds)
        assert (found, out) == (code, "") and rounds < reached <= rounds + 20
        if code == 130:
            told = re.search(r"Interrupted after round (\d+); go on with", err)
            assert told and int(told[1]) == reached
        rounds, run = reached, ["train", "--resume", folder]
    out, err = begin(*run, cache=cache).communicate(timeout=300)
    assert "Not converged after 60 rounds" in out, err
    assert proxfl(*command, "--out", straight).code == 3
    assert same(straight, folder)


@pytest.mark.soak
def test_a_run_killed_at_any_moment_goes_on_to_the_same_bits(data, tmp_path):
    """Also before its first checkpoint, and as it writes one, or the model."""
    cache, straight = tmp_path / "cache", tmp_path / "straight"
    command = [*base(data), "--l1", "0.1", "--tol", "1e-300", "--rounds", 60]
    command += ["--algorithm", "decoupled"]
    begun = time.monotonic()
    begin(*command, "--out", tmp_path / "first", cache=cache).communicate(timeout=600)
    longest = time.monotonic() - begun
    assert proxfl(*command, "--out", straight).code == 3

    def run(seeds):
        killed = 0
        for seed in seeds:
            rng, folder = random.Random(seed), tmp_path / str(seed)
            for _ in range(4):
                process = begin(*go_on(command, folder), cache=cache)
                try:
                    process.communicate(timeout=rng.uniform(0.3, 1.0) * longest)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    killed += 1
            process = begin(*go_on(command, folder), cache=cache)
            out, err = process.communicate(timeout=600)
            assert "Not converged after 60 rounds" in out, err
            assert same(straight, folder), seed
        return Counter({"processes killed": killed, "runs with the same model": len(seeds)})

    soak("kills_train", range(40), 1, run)


def go_on(command, folder):
    begun = (folder / "manifest.json").exists()
    return ["train", "--resume", folder] if begun else [*command, "--out", folder]


def test_a_converged_run_refuses_what_comes_too_late(data, tmp_path):
    folder = tmp_path / "out"
    assert proxfl(*base(data), "--l1", "0.1", "--out", folder).code == 0
    assert proxfl("train", "--resume", folder).code == 0
    outcome = proxfl("train", "--resume", folder, "--tol", "1e-9")
    assert outcome.code == 2 and "has converged" in outcome.err and "--tol" in outcome.err
