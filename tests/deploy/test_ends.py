"""What the people at both ends read: who is awaited, how a run stands, and what to do."""

import os

import pytest

from proxfl.cli.commands.federate import run
from proxfl.cli.commands.federate.standing import AWAY, CONNECTED, attendance, standing
from proxfl.deploy.ops.home import Home, write_json
from proxfl.deploy.ops.keyring import KeyRing, as_sent
from proxfl.deploy.ops.keys import make_site_keys
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.flower.launch import DATABASE
from proxfl.storage.files import write_text
from tests.cli.world import proxfl
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.linkstate import LinkState

ROUND = {"round": 7, "rounds": 9, "optimality": 2e-5, "tolerance": 1e-6, "left": None}
ROUND |= {"answered": 3, "away": [], "bytes_up": 2000, "bytes_down": 1000, "faults": 0}


def status(state, **more):
    about = {"run": "1", "pid": os.getpid(), "out": "/results", "sites": list(NAMES)}
    return about | {"present": ["north"], "options": {"study": "ridge"}, "state": state} | more


def test_every_site_is_listed_also_one_whose_key_has_not_come(tmp_path):
    home = Home(tmp_path)
    keys = {name: make_site_keys(tmp_path / name, name).public for name in NAMES[:2]}
    for name, path in keys.items():
        write_text(home.public_keys / f"{name}.pub", path.read_text())
    home.server.mkdir()
    link = LinkState(home.server / DATABASE, [as_sent(path) for path in keys.values()])
    assert attendance(home, NAMES, KeyRing(home.public_keys))["north"] == AWAY
    link.nodes.pop()
    link.activate()
    assert attendance(home, NAMES, KeyRing(home.public_keys)) == {
        "north": CONNECTED,
        "south": AWAY,
        "west": "awaited: its key, west.pub, has not been added",
    }


def test_without_keys_a_site_is_known_in_a_run_only(tmp_path):
    home = Home(tmp_path)
    assert set(attendance(home, NAMES, None).values()) == {"not seen in a run"}
    write_json(home.status, status("training"))
    assert attendance(home, NAMES, None)["north"] == CONNECTED
    assert attendance(home, NAMES, None)["west"] == "not seen in a run"


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ({}, "There was no run yet."),
        (
            status("meeting"),
            "The last run, of study ridge, is going on: 1 of 3 sites are here, waiting for south, "
            "west.",
        ),
        (
            status("training", **ROUND),
            "The last run, of study ridge, is going on: round 7, 3 of 3 sites, optimality 2.0e-05 "
            "(to 1e-06), 2\N{NO-BREAK SPACE}kB up, 1\N{NO-BREAK SPACE}kB down.",
        ),
        (
            status("stopped", reason="It was interrupted; its state is kept.", **ROUND),
            "The last run, of study ridge, stopped after round 7. It was interrupted; its state is "
            "kept.",
        ),
        (
            status("killed"),
            "The last run, of study ridge, broke off before its first round was over: its process "
            "was killed. What it had is on the disk.",
        ),
    ],
    ids=["none", "meeting", "training", "stopped", "killed"],
)
def test_how_a_run_stands_is_a_sentence(held, sentence):
    assert standing(held) == sentence


def test_a_run_that_broke_off_is_told_with_what_to_do(tmp_path):
    assert proxfl("federate", "init", tmp_path / "fed", "--sites", "a", "b").code == 0
    gone = {"pid": 2**22 + 1}  # more than Linux numbers processes to
    write_json(Home(tmp_path / "fed").status, status("training", **ROUND) | gone)
    shown = proxfl("federate", "status", tmp_path / "fed")
    assert shown.code == 0 and "broke off after round 7" in shown.out
    assert "To go on with it: proxfl federate resume" in shown.out


@pytest.mark.parametrize("left", [False, True])
def test_a_run_tells_of_one_before_it_only_if_that_left_something(left, tmp_path, monkeypatch):
    problem = ("--target", "y", "--loss", "logistic")
    assert proxfl("federate", "init", tmp_path / "fed", "--sites", "a", "b", *problem).code == 0
    if left:
        (tmp_path / "results").mkdir()
    before = status("stopped", **ROUND) | {"out": str(tmp_path / "results")}
    write_json(Home(tmp_path / "fed").status, before)
    notes = []
    monkeypatch.setattr(run, "carry_out", lambda *given, note, **other: notes.append(note) or 0)
    assert proxfl("federate", "run", tmp_path / "fed").code == 0
    (said,) = notes
    assert ("resume" in said) == left and (said == "") != left


def test_a_site_that_declines_tells_both_ends_what_to_do(tmp_path):
    field = Field(tmp_path, policy=LOOSE.replace(rows=35))
    with pytest.raises(
        TooFewSites, match=r"declines: .*\(so do west\)\. Write another study"
    ) as told:
        field.propose()
    assert "have the sites' people change their policy.toml" in str(told.value)
    (said,) = field.sites["north"].worker.office.news.values()
    assert said.endswith(f"(what it takes part in: {tmp_path / 'north' / 'policy.toml'}).")


def test_a_site_that_waits_tells_its_people_the_command(tmp_path):
    field = Field(tmp_path, policy=LOOSE.replace(automatic=()))
    with pytest.raises(TooFewSites, match="Run it again once a person there approves it"):
        field.propose()
    (said,) = field.sites["south"].worker.office.news.values()
    assert "(proxfl federate approve DIR field --site south)" in said
