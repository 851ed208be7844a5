"""A run over sites is `proxfl train` over their files, whatever happens on the way."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.protocol.membership import Membership, read_membership
from proxfl.deploy.protocol.study import make_study, read_study, read_study_at, read_table
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.status import rounds_left
from proxfl.deploy.server.summaries import aligned, read_summary
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.training import TrainingSite, tasks_of
from proxfl.errors import InputError
from proxfl.train.agreement import summarise
from proxfl.train.drivers.driver import Record, Settings
from proxfl.train.spec import Spec
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.world import PATIENCE


class Crash(BaseException):
    """As when the server is killed."""


def crash_at(number, after):
    """Kills the server at an exchange: before the sites are asked, or once they have answered."""

    def spoil(federation):
        exchange, calls = federation.inquire, 0

        def crashing(*args, **options):
            nonlocal calls
            calls += 1
            if calls == number and not after:
                raise Crash
            answers = exchange(*args, **options)
            if calls == number:
                raise Crash
            return answers

        federation.inquire = crashing

    return spoil


def number_of_exchanges(field):
    counts = []

    def count(federation):
        exchange = federation.inquire
        federation.inquire = lambda *a, **o: counts.append(0) or exchange(*a, **o)

    field.run("straight", count)
    return len(counts)


KINDS = {
    "newton": {"l1": 0.02, "inference": True},
    "adaptive": {"l1": 0.02, "algorithm": "decoupled"},
    "local steps": {"l1": 0.02, "local_steps": 3, "accelerate": False, "tol": 1e-5},
    "two exchanges": {"algorithm": "mime", "rounds": 6},
    "classes": {"classes": 3, "loss": "softmax", "group_weight": 0.02, "tol": 1e-4},
    "cohorts": {
        "algorithm": "decoupled-partial",
        "l1": 0.02,
        "rounds": 12,
        "cohort": 2,
    },
}
BATCHES = KINDS["cohorts"] | {"batch": 9}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.filterwarnings("ignore:Not converged")
def test_real_sites_give_the_model_of_train_with_the_same_bytes(kind, tmp_path):
    field = Field(tmp_path, **KINDS[kind])
    there, here = field.run(), field.trained()
    assert len(there.records) == len(here.records)
    np.testing.assert_allclose(there.model.coef, here.model.coef, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(there.solution.objective, here.solution.objective, rtol=1e-12)
    assert there.agreement.rows == here.agreement.rows
    for fit, exchanges in ((there, 3), (here, 1)):  # text, whose length hangs on the last digits
        assert fit.ledger.pop("agreement").exchanges == exchanges
    assert there.ledger == here.ledger
    steps = lambda fit: np.diff(np.array(fit.traffic), axis=0).tolist()
    assert steps(there) == steps(here)


def without_bytes(path):
    lines = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
    cost = ("exchanges", "bytes_up", "bytes_down")  # a resumed run asks some things again
    return [{k: v for k, v in line.items() if k not in cost} for line in lines]


@pytest.mark.filterwarnings("ignore:Not converged")
def test_who_knows_the_seed_does_not_know_the_batches(tmp_path):
    """They were those of the simulation, so that the server knew which rows it heard of."""
    field = Field(tmp_path, **BATCHES)
    there, here = field.run(), field.trained()
    assert not np.isclose(there.model.coef, here.model.coef, rtol=1e-6, atol=0).any()


@pytest.mark.parametrize("kind", ["newton", "adaptive", "two exchanges", "batches"])
def test_a_server_killed_at_any_moment_goes_on_to_the_same_bits(kind, tmp_path):
    field = Field(tmp_path, **KINDS.get(kind, BATCHES))
    exchanges, rng = number_of_exchanges(field), np.random.default_rng(0)
    moments = [(2, True), (int(rng.integers(5, exchanges)), True), (exchanges, False)]
    straight = tmp_path / "straight"
    for number, after in moments:
        out = f"{number}-{after}"
        with pytest.raises(Crash):
            field.run(out, crash_at(number, after))
        with pytest.raises(Crash):  # and again, soon after it was resumed
            field.run(out, crash_at(5, not after))
        field.run(out)
        for name in ("model.json", "model.safetensors"):
            assert (tmp_path / out / name).read_bytes() == (straight / name).read_bytes()
        assert without_bytes(tmp_path / out) == without_bytes(straight)
        assert not list((tmp_path / out).glob(".*"))


def test_a_site_killed_between_rounds_still_knows_what_it_agreed_to(tmp_path):
    field = Field(tmp_path, l1=0.02)
    field.run("straight")

    def spoil(federation):
        exchange, calls = federation.inquire, 0

        def restarting(*args, **options):
            nonlocal calls
            calls += 1
            if calls > 3 and calls % 3 == 0:
                field.sites["south"].restart()
            return exchange(*args, **options)

        federation.inquire = restarting

    field.run("restarted", spoil)
    same = [(tmp_path / out / "model.json").read_bytes() for out in ("straight", "restarted")]
    assert same[0] == same[1]


def test_the_run_goes_on_with_a_quorum_and_needs_everyone_for_the_certificate(tmp_path):
    field = Field(tmp_path, algorithm="decoupled-partial", l1=0.02, rounds=25)
    patience = PATIENCE._replace(quorum=2)

    def leave(federation):
        visit = federation.visit

        def visiting(algorithm, call, down, *more):
            field.sites["south"].attend(not 4 <= call.round < 22)
            return visit(algorithm, call, down, *more)

        federation.visit = visiting

    fit = field.run(spoil=leave, patience=patience, quorum=2)
    assert fit.deployment["sites"]["south"]["rounds"] == 7
    assert fit.deployment["sites"]["north"]["rounds"] == 25
    words = [fault["sentence"] for fault in fit.deployment["faults"] if fault["site"] == "south"]
    assert words == ["It did not answer; going on without it.", "It is back."]
    looked = [record.round for record in fit.records if np.isfinite(record.optimality)]
    assert looked == [25]  # rounds 10 and 20 were without the site


def test_below_the_quorum_a_run_stops_intact_and_can_be_resumed(tmp_path):
    field = Field(tmp_path, l1=0.02, algorithm="decoupled")
    field.run("straight")

    def leave(federation):
        visit = federation.visit

        def visiting(algorithm, call, down, *more):
            field.sites["west"].attend(call.round < 5)
            return visit(algorithm, call, down, *more)

        federation.visit = visiting

    with pytest.raises(TooFewSites, match=r"west \(not connected\). Nothing is lost"):
        field.run("halved", leave)
    stopped = field.status()
    assert (stopped["state"], stopped["code"], stopped["round"]) == ("stopped", 3, 5)
    field.sites["west"].attend(True)
    field.run("halved")
    assert field.status()["state"] == "finished"
    same = [(tmp_path / out / "model.json").read_bytes() for out in ("straight", "halved")]
    assert same[0] == same[1]


def test_a_resumed_run_refuses_other_data(tmp_path):
    field = Field(tmp_path, l1=0.02)
    with pytest.raises(Crash):
        field.run(spoil=crash_at(6, False))
    table = pd.read_csv(field.files[0])
    table.loc[0, "a"] += 1.0
    table.to_csv(field.files[0], index=False)
    with pytest.raises(ValueError, match="Site north holds other data than when it agreed"):
        field.site(0).experiment()
    field.policy = LOOSE.replace(count=5)
    field.sites["north"].restart()
    with pytest.raises(TooFewSites, match="north would tell of rows that differ in fewer than 5"):
        field.run()
    shutil.rmtree(tmp_path / "north" / "rows")  # its owner insists
    with pytest.raises(InputError, match="Site north does not hold the data"):
        field.run()
    assert field.status()["code"] == 2


def test_a_site_answers_only_about_studies_that_were_proposed(tmp_path):
    field = Field(tmp_path, l1=0.02)
    with pytest.raises(TooFewSites, match="north takes part in no such study; propose it"):
        field.life().federation.ask("summary", {})


def test_a_site_tells_a_hessian_only_if_its_study_may_need_one(tmp_path):
    held = lambda **options: tasks_of(Spec(target="y", loss="logistic", **options))
    assert "newton" in held() and not {"hessian", "information"} & set(held())
    assert {"hessian", "information"} <= set(held(inference=True))
    assert "newton" not in held(algorithm="decoupled")
    field = Field(tmp_path, l1=0.02, algorithm="decoupled")
    field.propose()
    training = field.life()
    training.federation.ask("summary", {})
    with pytest.raises(TooFewSites, match="knows no task 'newton'"):
        training.federation.ask("newton", {})


def test_a_bad_agreement_is_refused_and_nothing_of_it_kept(tmp_path):
    field = Field(tmp_path, l1=0.02)
    agreement = field.run().agreement.to_dict()
    fresh = Office(tmp_path / "elsewhere", field.policy)
    site = TrainingSite(field.study, "north", read_table(field.spec, field.files[0]), fresh)
    for change in [
        {"sites": ["north"]},
        {"rows": [1, 40, 30]},
        {"scale": [0.0] * 5},
        {"centre": [float("nan")] * 5},
        {"features": ["a", "b", "c", "d", "f"]},
        {"fill": []},
    ]:
        with pytest.raises(ValueError, match="does not fit the table of site north; its log says"):
            site.agree({"agreement": json.dumps(agreement | change)})
    for text in ("", "[]", '{"sites": 3}', "null"):
        with pytest.raises(ValueError, match="cannot be read|does not fit"):
            site.agree({"agreement": text})
    assert not site.path.exists()
    site.agree({"agreement": json.dumps(agreement)})


def test_summaries_are_read_with_care_and_put_in_one_order():
    spec = Spec(target="y", loss="squared")
    told = {"rows": 3, "dropped": 0, "features": ["a", "b"], "fingerprint": "f", "labels": []}
    told |= {"targets": 1, "count": [3, 3], "mean": [1.0, 2.0], "squares": [0.1, 0.2]}
    other = told | {"features": ["b", "a"], "mean": [5.0, 4.0]}
    moved = aligned({"one": told, "two": other}, spec)
    assert moved["two"]["mean"] == [4.0, 5.0] and moved["two"]["features"] == ["a", "b"]
    for bad in ("", "3", "{}", json.dumps(told | {"rows": 0}), json.dumps(told | {"mean": [1]})):
        with pytest.raises(InputError, match="Site one"):
            read_summary("one", bad, spec)
    with pytest.raises(InputError, match="Site two lacks 'b' and has extra 'c' compared with site"):
        aligned({"one": told, "two": told | {"features": ["a", "c"]}}, spec)


def test_a_schema_in_the_study_makes_the_same_features_at_sites_whose_levels_differ(tmp_path):
    levels = ["I", "II", "III", "IV"]
    schema = {"a": {"kind": "number"}, "b": {"kind": "number", "missing": "indicator"}}
    schema |= {"stage": {"kind": "category", "levels": levels, "reference": "II"}}
    schema |= {"y": {"kind": "boolean"}}
    field = Field(tmp_path, l1=0.02)
    field.ask(**field.spec.changed() | {"schema": schema})
    for k, file in enumerate(field.files):
        table = pd.read_csv(file)
        table["stage"] = np.resize(levels[k : k + 2], len(table))  # of four, each site has two
        table["y"] = table["y"].map([{0: "no", 1: "yes"}, {0: False, 1: True}, {0: 0, 1: 1}][k])
        table.loc[0, "b"] = np.nan if k == 1 else 0.0
        table.to_csv(file, index=False)
    told = [summarise(read_table(field.spec, file), field.spec) for file in field.files]
    assert [site["labels"] for site in told] == [[]] * 3  # the classes are in the study
    remote, local = field.run(), field.trained()
    features = ("a", "b", "b=missing", "stage=I", "stage=III", "stage=IV")
    assert remote.agreement.features == features and remote.agreement.classes == (0, 1)
    np.testing.assert_allclose(remote.model.coef, local.model.coef, rtol=1e-9, atol=1e-12)


def test_a_study_is_the_same_after_writing_and_reading_and_another_if_anything_differs(tmp_path):
    options = dict(
        target="größe",
        loss="squared",
        l1=0.1,
        feature_weights={"a b": 2.0},
        box=(-1, float("inf")),
        standardise=True,
        features=("a b", "c", "d"),
        exclude=("d",),
        schema={"a b": {"kind": "number"}, "c": {"kind": "category", "levels": ["é", "1"]}},
    )
    study = make_study("sparse", "heart", NAMES, Spec(**options))
    study.write(tmp_path / "sparse.toml")
    found = read_study_at(tmp_path / "sparse.toml")
    assert (found.id, found.spec, found.sites) == (study.id, Spec(**options), NAMES)
    assert len(study.id) == 64
    others = [options | {"tol": 1e-3}, options | {"schema": {"a b": {"kind": "number"}}}]
    assert study.id not in {make_study("sparse", "heart", NAMES, Spec(**o)).id for o in others}
    assert make_study("sparse", "heart", NAMES[::-1], Spec(**options)).id != study.id


def test_a_federation_is_the_same_after_writing_and_reading(tmp_path):
    Membership("heart", NAMES).write(tmp_path)
    assert read_membership(tmp_path) == Membership("heart", NAMES)
    for sites in ((), ("a", "a"), ("a/b",), ("-x",)):
        with pytest.raises(InputError, match="sites must be distinct|cannot name"):
            Membership("heart", sites)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("ask = 3", "ask is no text"),
        ('[problem]\nschema = "/etc/passwd"', "the key 'schema', which is of one machine"),
        ('[problem]\ngroup = "/etc/passwd"', "the key 'group', which is of one machine"),
        ('[problem]\nout = "/tmp"', "the key 'out', which is of one machine"),
        ('[problem]\nsites = ["/etc"]', "the key 'sites', which is of one machine"),
        ("more = 1", "it has a key 'more'"),
        ("[problem]\nsecret = 1", "there is no key 'secret'"),
        ("x = " + "[" * 10_000, "The study is not TOML"),
    ],
)
def test_a_text_that_is_no_study_is_refused_in_a_sentence(more, words):
    held = {"name": "a", "federation": "b", "sites": ["c"], "ask": "train", "version": "1"}
    text = "".join(f"{k} = {json.dumps(v)}\n" for k, v in held.items() if f"{k} = 3" != more)
    text += more + ("" if "[problem]" in more else "\n[problem]")
    text += '\ntarget = "y"\nloss = "squared"\n'
    with pytest.raises(InputError, match=words):
        read_study(text)


def test_the_time_left_is_read_off_the_last_rounds():
    seen = [Record(k, 0.0, 10.0**-k, 1.0, True) for k in range(1, 4)]
    np.testing.assert_allclose(rounds_left(seen, Settings(tol=1e-6)), 3.0, rtol=1e-9)
    assert rounds_left(seen, Settings(tol=1e-6, rounds=4)) == 1
    assert rounds_left(seen[:2], Settings()) is None
    assert rounds_left(seen[::-1], Settings()) is not None
    rising = [Record(k, 0.0, 10.0**k, 1.0, True) for k in range(3)]
    assert rounds_left(rising, Settings()) is None
