"""`proxfl federate run` under masks: the same model, and nothing else for the server to see."""

import json

import numpy as np
import pandas as pd
import pytest

from proxfl.cli.commands.federate.run import begun_at
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.transcript import model_name
from proxfl.deploy.ops.home import Home
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.masked import MaskedRun
from proxfl.deploy.server.options import RunOptions, refuse_options
from proxfl.errors import InputError
from proxfl.train.folder import read
from proxfl.train.spec import Spec
from tests.deploy.field import LOOSE, NAMES, Field

KINDS = {
    "newton": {"l1": 0.02, "inference": True},
    "adaptive": {"classes": 3, "loss": "softmax", "l2": 0.1, "algorithm": "decoupled"},
}
STRICT = LOOSE.replace(unmasked=False)


def masked(folder, **options):
    field = Field(folder, masked=True, **{"policy": STRICT, "l1": 0.02} | options)
    field.confirm()
    return field


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_masked_run_is_the_plain_run_to_1e_10(kind, tmp_path):
    field = masked(tmp_path, **{"l1": 0.0} | KINDS[kind])
    there, here = field.run(), field.trained()
    near = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(there.model.coef, here.model.coef, **near)
    np.testing.assert_allclose(there.solution.objective, here.solution.objective, **near)
    assert there.solution.converged == here.solution.converged
    if here.inference:
        np.testing.assert_allclose(there.inference.robust_se, here.inference.robust_se, **near)
    saved = read(tmp_path / "results")
    assert "from 3 sites" in (tmp_path / "results" / "report.html").read_text()
    assert [site["name"] for site in saved.manifest["sites"]] == ["all sites"]
    told = saved.manifest["deployment"]["masking"]
    members = Members.of({name: bytes.fromhex(key) for name, key in told["members"].items()})
    name = model_name(bytes.fromhex(told["tip"]), bytes.fromhex(told["model"]))
    for i, site in enumerate(sorted(NAMES)):
        assert members.signed(i, bytes.fromhex(told["signatures"][site]), name)


@pytest.mark.parametrize("sums", [False, True])
def test_rows_with_weights_have_the_same_errors_over_sites(sums, tmp_path):
    options = {"l1": 0.0, "row_weights": "w", "inference": True, "tol": 1e-9}
    field = Field(tmp_path, masked=sums, policy=STRICT if sums else LOOSE, **options)
    for file in field.files:
        frame = pd.read_csv(file)
        frame.assign(w=1.0 + np.arange(len(frame)) % 3).to_csv(file, index=False)
    field.confirm()
    there, here = field.run().inference, field.trained().inference
    for name in ("se", "robust_se", "sampling_se"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-8)


class Crash(BaseException):
    """As when the server is killed."""


def at_step(number, action):
    """Does something once, when a run comes to a step."""

    def spoil(federation):
        ask, times = federation.ask, 0

        def asking(task, payload, **more):
            nonlocal times
            times += task == "step"
            found = ask(task, payload, **more)
            if times == number:
                times += 1
                action()
            return found

        federation.ask = asking

    return spoil


def crash():
    raise Crash


def test_a_server_or_a_site_killed_at_any_step_goes_on_to_the_same_bits(tmp_path):
    field = masked(tmp_path / "one")
    wanted = field.run().solution
    other = masked(tmp_path / "other")
    for number in (1, 3, 2):
        with pytest.raises(Crash):
            other.run("results-2", at_step(number, crash))
    begun = lambda: begun_at(Home(tmp_path / "other"), other.study)
    assert begun() == tmp_path / "other" / "results-2"
    found = other.run("results-2", at_step(2, other.sites["south"].restart)).solution
    with pytest.raises(InputError, match="results-2; under masks a study is asked once, so write"):
        begun()
    assert (found.objective, found.distance) == (wanted.objective, wanted.distance)
    same = [
        (tmp_path / f / "model.safetensors").read_bytes()
        for f in ("one/results", "other/results-2")
    ]
    assert same[0] == same[1]


def test_a_study_waits_until_people_at_all_sites_have_compared_the_words(tmp_path):
    field = Field(tmp_path, masked=True, policy=STRICT, l1=0.02)
    with pytest.raises(
        TooFewSites, match="north waits: a person there compares the members' words.*do south, west"
    ):
        field.run()
    news = field.sites["north"].worker.office.news
    assert "compare the members' words with two other sites" in news["members"]
    (members,) = field.office(0).confirmed.waiting()
    for compared, words in [(["south"], "2 others or more"), (["south", "x"], "'x' is no other")]:
        with pytest.raises(InputError, match=words):
            field.office(0).confirmed.confirm(members, "north", compared)
    field.confirm()
    assert field.run().solution.converged and "members" not in news


def test_a_list_with_a_key_of_the_server_s_own_is_another_list(tmp_path):
    field = masked(tmp_path)
    training = MaskedRun(field.life())
    field.propose()
    members, charter = training.enter()
    keys = {member.name: member.key for member in members.each}
    for odd in ({"south": bytes(32)}, {"north": bytes(32)}):
        question = json.dumps({name: key.hex() for name, key in (keys | odd).items()})
        reply = field.sites["north"].worker.open
        (worker,) = reply.values()
        asked = {"members": question, "charter": charter.text}
        if "north" in odd:
            with pytest.raises(ValueError, match="another key for north than its own"):
                worker.setup["meet"](asked)
        else:
            assert worker.setup["meet"](asked)["decision"] == "waits"


def test_a_study_that_was_begun_is_asked_once(tmp_path):
    field = masked(tmp_path)
    field.run()
    with pytest.raises(InputError, match="resume the run that has them, or write another study"):
        field.run("again")


def test_a_guard_that_strikes_names_nobody(tmp_path):
    field = masked(tmp_path)
    field.sites["south"].worker.office.given = STRICT.replace(questions_per_row=0.05)
    with pytest.raises(ValueError, match="^1 members have set their flag") as told:
        field.run()
    assert not any(name in str(told.value) for name in NAMES)


def test_an_absent_site_stops_a_step_and_the_run_goes_on_when_it_is_back(tmp_path):
    field = masked(tmp_path)
    gone = at_step(3, lambda: field.sites["west"].attend(False))
    with pytest.raises(TooFewSites, match="west .not connected.. Nothing is lost"):
        field.run("out", gone)
    field.sites["west"].attend(True)
    assert field.run("out").solution.converged


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"cohort": 2, "algorithm": "decoupled-partial"}, {}, "all sites and all of their rows"),
        ({"batch": 9, "algorithm": "decoupled-partial"}, {}, "all sites and all of their rows"),
        ({"algorithm": "mime"}, {}, "the most curved site, which a sum does not tell; give eta"),
        ({}, {"quorum": 2}, "needs every site in every exchange, since only the sum"),
        ({}, {"rounds": 5}, "hold it to the study's own rounds; write another study"),
    ],
)
def test_what_masks_do_not_go_with_is_refused_in_a_sentence(options, given, words):
    spec = Spec(**{"target": "y", "loss": "squared"} | options)
    study = make_study("s", "field", NAMES, spec)
    with pytest.raises(InputError, match=words):
        refuse_options(study, RunOptions(**given))
    refuse_options(make_study("s", "field", NAMES, spec, unmasked=True), RunOptions(**given))
    assert not make_study("s", "field", NAMES[:2], spec).masked


def test_constraints_do_not_choose_the_model(tmp_path):
    field = masked(tmp_path, box=(1e7, 1e7), l1=0.0)
    with pytest.raises(InputError, match="starts from 0, which the constraints leave out"):
        field.run()
