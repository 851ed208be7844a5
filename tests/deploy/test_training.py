"""A run over sites is `proxfl train` over their files, whatever happens on the way."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.protocol.plan import Plan, read_plan, read_table
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.status import rounds_left
from proxfl.deploy.server.summaries import aligned, read_summary
from proxfl.deploy.site.site import Site
from proxfl.errors import InputError
from proxfl.report import page
from proxfl.train.drivers.driver import Record, Settings
from proxfl.train.spec import Spec
from tests.deploy.field import NAMES, Field
from tests.deploy.world import PATIENCE


class Crash(BaseException):
    """As when the server is killed."""


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr(page, "inline", lambda figure: "data:,")


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
    "adaptive": {"l1": 0.02},
    "local steps": {"l1": 0.02, "local_steps": 3, "accelerate": False, "tol": 1e-5},
    "two exchanges": {"algorithm": "mime", "rounds": 6},
    "classes": {"classes": 3, "loss": "softmax", "group_weight": 0.02, "tol": 1e-4},
    "cohorts": {
        "algorithm": "decoupled-partial",
        "l1": 0.02,
        "rounds": 12,
        "cohort": 2,
        "batch": 9,
    },
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.filterwarnings("ignore:Not converged")
def test_real_sites_give_the_model_of_train_with_the_same_bytes(kind, tmp_path):
    field = Field(tmp_path, **KINDS[kind])
    there, here = field.run(), field.trained()
    assert len(there.records) == len(here.records)
    np.testing.assert_allclose(there.model.coef, here.model.coef, atol=1e-9)
    np.testing.assert_allclose(there.solution.objective, here.solution.objective, rtol=1e-12)
    assert there.fingerprints == here.fingerprints and there.agreement.rows == here.agreement.rows
    for fit, exchanges in ((there, 2), (here, 1)):  # text, whose length hangs on the last digits
        assert fit.ledger.pop("agreement").exchanges == exchanges
    assert there.ledger == here.ledger
    steps = lambda fit: np.diff(np.array(fit.traffic), axis=0).tolist()
    assert steps(there) == steps(here)


def without_bytes(path):
    lines = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("bytes")} for line in lines]


@pytest.mark.parametrize("kind", ["adaptive", "two exchanges", "cohorts"])
def test_a_server_killed_at_any_moment_goes_on_to_the_same_bits(kind, tmp_path):
    field = Field(tmp_path, **KINDS[kind])
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

        def visiting(algorithm, call, down):
            field.sites["south"].attend(not 4 <= call.round < 22)
            return visit(algorithm, call, down)

        federation.visit = visiting

    fit = field.run(spoil=leave, patience=patience, quorum=2)
    assert fit.deployment["sites"]["south"]["rounds"] == 7
    assert fit.deployment["sites"]["north"]["rounds"] == 25
    words = [fault["sentence"] for fault in fit.deployment["faults"] if fault["site"] == "south"]
    assert words == ["It did not answer; going on without it.", "It is back."]
    looked = [record.round for record in fit.records if np.isfinite(record.optimality)]
    assert looked == [25]  # rounds 10 and 20 were without the site


def test_below_the_quorum_a_run_stops_intact_and_can_be_resumed(tmp_path):
    field = Field(tmp_path, l1=0.02)
    field.run("straight")

    def leave(federation):
        visit = federation.visit

        def visiting(algorithm, call, down):
            field.sites["west"].attend(call.round < 5)
            return visit(algorithm, call, down)

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
    site = Site(field.plan, "north", read_table(field.plan, field.files[0]), tmp_path / "north")
    with pytest.raises(ValueError, match="Site north holds other data than when it agreed"):
        site.experiment()
    field.sites["north"].restart()
    with pytest.raises(InputError, match="Site north does not hold the data"):
        field.run()
    assert field.status()["code"] == 2


def test_a_site_answers_only_to_the_plan_it_holds(tmp_path):
    field = Field(tmp_path, l1=0.02)
    field.plan = dataclasses.replace(field.plan, spec=Spec(target="y", loss="logistic", l1=0.03))
    with pytest.raises(TooFewSites, match="takes part in field-.*, not in another"):
        field.run()
    loose = field.plan.spec.replace(rounds=7, tol=0.5)
    assert dataclasses.replace(field.plan, spec=loose).id == field.plan.id


def test_a_bad_agreement_is_refused_and_nothing_of_it_kept(tmp_path):
    field = Field(tmp_path, l1=0.02)
    agreement = field.run().agreement.to_dict()
    table = read_table(field.plan, field.files[0])
    site = Site(field.plan, "north", table, tmp_path / "elsewhere")
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
    assert not (tmp_path / "elsewhere").exists()
    site.agree({"agreement": json.dumps(agreement)})


def test_summaries_are_read_with_care_and_put_in_one_order():
    told = {"rows": 3, "dropped": 0, "features": ["a", "b"], "fingerprint": "f", "labels": []}
    told |= {"targets": 1, "count": [3, 3], "mean": [1.0, 2.0], "squares": [0.1, 0.2]}
    other = told | {"features": ["b", "a"], "mean": [5.0, 4.0]}
    moved = aligned({"one": told, "two": other})
    assert moved["two"]["mean"] == [4.0, 5.0] and moved["two"]["features"] == ["a", "b"]
    for bad in ("", "3", "{}", json.dumps(told | {"rows": 0}), json.dumps(told | {"mean": [1]})):
        with pytest.raises(InputError, match="Site one"):
            read_summary("one", bad)
    with pytest.raises(InputError, match="Site two lacks 'b' and has extra 'c' compared with site"):
        aligned({"one": told, "two": told | {"features": ["a", "c"]}})


def test_a_plan_is_the_same_after_writing_and_reading(tmp_path):
    spec = Spec(
        target="größe",
        loss="squared",
        l1=0.1,
        feature_weights={"a b": 2.0},
        box=(-1, float("inf")),
        standardise=True,
    )
    plan = Plan("heart", NAMES, spec, ("a b", "c"))
    plan.write(tmp_path)
    assert read_plan(tmp_path) == plan and read_plan(tmp_path).id == plan.id
    for sites in ((), ("a", "a"), ("a/b",), ("-x",)):
        with pytest.raises(InputError, match="sites must be distinct|cannot name"):
            Plan("heart", sites, spec)


def test_the_time_left_is_read_off_the_last_rounds():
    seen = [Record(k, 0.0, 10.0**-k, 1.0, True) for k in range(1, 4)]
    np.testing.assert_allclose(rounds_left(seen, Settings(tol=1e-6)), 3.0, rtol=1e-9)
    assert rounds_left(seen, Settings(tol=1e-6, rounds=4)) == 1
    assert rounds_left(seen[:2], Settings()) is None
    assert rounds_left(seen[::-1], Settings()) is not None
    rising = [Record(k, 0.0, 10.0**k, 1.0, True) for k in range(3)]
    assert rounds_left(rising, Settings()) is None
