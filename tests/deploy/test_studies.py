"""A federation that lives: studies come and go, and a site has its say about each."""

import json
import random

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking.messages import question_payload
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.session import Refused
from proxfl.deploy.ops.home import Home
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.asks import ASKS
from proxfl.deploy.protocol.study import (
    make_description,
    make_evaluation,
    make_study,
    read_table,
)
from proxfl.deploy.protocol.wire import BadMessage, Header
from proxfl.deploy.server import evaluation
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.program import result_of
from proxfl.deploy.site import audit
from proxfl.deploy.site.audit import Audit, Head
from proxfl.deploy.site.draws import secret_draws
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import RULES, Policy
from proxfl.deploy.site.policy_file import policy_in, write_policy
from proxfl.deploy.site.told_rows import apart
from proxfl.deploy.transport.memory import undisturbed
from proxfl.errors import InputError
from proxfl.report.training import save
from proxfl.storage import documents
from proxfl.tables import Schema
from proxfl.train.agreement import summarise
from proxfl.train.applied import Applied
from proxfl.train.choice import Choice
from proxfl.train.evaluate import How, evaluate, evaluated, tell
from proxfl.train.folder import read_model
from proxfl.train.spec import Spec
from proxfl.train.train import train
from tests.cli.world import proxfl
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.red_team import USUAL, Attacker, victim


def test_studies_follow_one_another_and_nobody_is_started_again(tmp_path):
    field = Field(tmp_path, l1=0.02)
    first = field.run("first")
    before = {name: site.worker for name, site in field.sites.items()}
    field.ask(target="y", loss="logistic", l1=0.05)
    second = field.run("second")
    field.ask(target="b", loss="squared", features=("a", "c"), l2=0.1)
    third = field.run("third")
    assert {name: site.worker for name, site in field.sites.items()} == before
    for fit in (first, second, third):
        assert fit.solution.converged
    np.testing.assert_allclose(third.model.coef, field.trained().model.coef, rtol=1e-12)
    assert np.count_nonzero(second.model.coef) <= np.count_nonzero(first.model.coef)
    assert [line["decision"] for line in told(tmp_path / "north", "study")] == ["takes part"] * 3


def told(folder, what):
    lines = (audit.parsed(line) for line in audit.lines_of(folder))
    return [line for line in lines if line["what"] == what]


def test_the_fingerprint_that_leaves_is_the_sites_own(tmp_path):
    one, other = Field(tmp_path / "a", l1=0.02), Field(tmp_path / "b", l1=0.02)
    found = [field.run().fingerprints for field in (one, other)]
    assert all(found[0][site] != found[1][site] for site in NAMES)  # of the same tables
    assert not set(found[0].values()) & set(one.trained().fingerprints.values())
    assert found[0] == one.run("again").fingerprints


@pytest.mark.parametrize("masked", [False, True])
def test_people_at_a_site_are_told_of_a_column_that_seems_to_name_the_rows(tmp_path, masked):
    field = Field(tmp_path, masked=masked)
    for k, file in enumerate(field.files):
        table = pd.read_csv(file)
        number = np.random.default_rng(k).permutation(len(table)) + 5000
        table.assign(patient=number if k == 0 else 7.5 * table["a"]).to_csv(file, index=False)
    field.propose()
    news = {name: " ".join(site.worker.office.news.values()) for name, site in field.sites.items()}
    assert "a number of its own in 'patient'" in news["north"] and "exclude" in news["north"]
    assert not any("number of its own" in news[name] for name in ("south", "west"))
    assert "patient" not in told(tmp_path / "north", "study")[0]["reason"]  # the server reads that
    field.sites["north"].worker.office.given = LOOSE.replace(exclude=("patient",))
    with pytest.raises(TooFewSites, match="column patient is not for studies"):
        field.propose()


def test_a_person_who_approves_a_study_reads_what_it_asks_and_of_which_columns(tmp_path):
    field = Field(tmp_path, l1=0.05)
    field.run()
    model = (tmp_path / "results" / "model.json").read_text()
    evaluation = make_evaluation("how-good", "field", NAMES, model, How(draws=7)).words
    assert evaluation.startswith("evaluate") and "7 draws" in evaluation
    assert "y, a, b, c, d, e" in evaluation
    field.ask(Choice(points=4, folds=3), target="y", loss="logistic")
    assert "4 weights of l1" in field.study.words and "3 folds" in field.study.words
    for words in (evaluation, field.study.words):
        assert "minimise" in words  # the problem of the model, too


def test_a_person_at_a_site_reads_what_a_study_that_waits_asks_before_approving_it(tmp_path):
    office = Office(Home(tmp_path).site("north"), LOOSE)
    for name, weight, decision in (("a", 0.5, "takes part"), ("b", 2.5, "waits")):
        problem = Spec(target="y", loss="logistic", l1=weight)
        study = make_study(name, "field", NAMES, problem)
        office.keep(study)
        office.audit.enter("study", study.id, name=name, ask="train", decision=decision, reason="")
    listed = proxfl("federate", "studies", tmp_path, "--site", "north")
    assert listed.code == 0, listed.err
    assert "+ 2.5 sum_j |coef_j|" in listed.out and "+ 0.5 sum_j" not in listed.out
    assert str(office.text_at(study.id)) in listed.out and office.text_at(study.id).exists()


# By rule, a study that an honest site declines or waits with, and how else it would be asked.
AGAINST = {
    "rows": (dict(rows=60), {}),
    "sites": (dict(sites=4), {}),
    "unmasked": (dict(unmasked=False), {}),
    "count": (dict(count=20), dict(features=("a", "b"))),
    "parameters_per_row": (dict(parameters_per_row=0.1), {}),
    "questions_per_row": (dict(questions_per_row=0.0), {}),
    "studies": (dict(studies=0), {}),
    "kinks": (dict(kinks=False), dict(loss="huber", target="b", features=("a",))),
    "hessians": (dict(hessians=False), {}),
    "epsilon": (dict(epsilon=1.0), {}),
    "columns": (dict(columns=("a", "y")), {}),
    "exclude": (dict(exclude=("c",)), {}),
    "automatic": (dict(automatic=()), {}),
}


@pytest.mark.parametrize("rule", AGAINST)
def test_a_study_against_a_rule_of_one_site_is_not_begun_and_its_operator_reads_why(rule, tmp_path):
    strict, asked = AGAINST[rule]
    field = Field(tmp_path, **asked)
    one = field.sites["south"]
    one.worker.office.given = LOOSE.replace(**strict)
    with pytest.raises(TooFewSites, match="has not all of its sites: south (decl|wait)"):
        field.propose()
    with pytest.raises(TooFewSites, match="south"):  # nor may the server leave the proposal out
        field.life().federation.ask("summary", {})
    assert not told(tmp_path / "south", "answer") and not told(tmp_path / "south", "told")
    one.worker.office.given = LOOSE
    field.propose()


def test_every_rule_has_a_study_against_it_or_bounds_the_answers():
    assert {rule.option.key for rule in RULES} == AGAINST.keys() | {"share", "delta", "honest"}


def test_a_person_approves_a_study_that_waits_and_no_other(tmp_path):
    field = Field(tmp_path, policy=LOOSE.replace(automatic=()), l1=0.02)
    with pytest.raises(TooFewSites, match="north waits: a person there decides"):
        field.propose()
    for i in range(3):
        field.office(i).approve(field.study)  # by another process
    assert field.run().solution.converged
    assert [line["name"] for line in told(tmp_path / "north", "approved")] == ["field"]
    field.ask(target="y", loss="logistic", l1=0.03)
    with pytest.raises(TooFewSites, match="north waits"):
        field.propose()


def test_what_is_declined_outright_no_person_approves(tmp_path):
    field = Field(tmp_path, policy=LOOSE.replace(rows=60))
    with pytest.raises(TooFewSites, match="declines: it takes part with 60 rows or more"):
        field.propose()
    assert field.office(0).studies() == []  # nothing to approve


def test_no_objection_tells_the_server_a_number_of_the_data(tmp_path):
    for rule in ("rows", "count", "parameters_per_row"):
        strict, asked = AGAINST[rule]
        field = Field(tmp_path / rule, **asked)
        field.sites["north"].worker.office.given = LOOSE.replace(**strict)
        with pytest.raises(TooFewSites) as stop:
            field.propose()
        rows = len(pd.read_csv(field.files[0]))
        assert str(rows) not in str(stop.value).replace(str(strict), "")


@pytest.mark.parametrize("masked", [False, True])
def test_no_label_leaves_a_site_where_a_schema_names_them(masked, tmp_path):
    field = Field(tmp_path, masked=masked)
    numbers = {name: {"kind": "number"} for name in "abcde"}
    for named in (False, True):
        schema = numbers | {"y": {"kind": "boolean"}} if named else None
        field.ask(target="y", loss="logistic", schema=schema)
        field.propose()
        (worker,) = field.sites["north"].worker.open.values()
        if masked:
            _, labels = json.loads(worker.setup["enter"]({})["charter"])
        else:
            labels = json.loads(worker.setup["summary"]({})["summary"])["labels"]
        assert labels == ([] if named else [0, 1])


# A server in the attacker's hands that proposes studies of its own.


def test_ten_thousand_slightly_different_studies_ask_no_more_than_one(tmp_path):
    """Studies that no person approved share the questions of one."""
    site, _, _ = victim(tmp_path, 200, features=4, policy=USUAL.replace(studies=10**6))
    attacker, answered = Attacker(site), 0
    for number in range(10_000):
        spec = site.asks.replace(l1=1e-9 * (number + 1))
        try:
            attacker.propose(f"s{number}", spec)
        except BadMessage as error:
            assert "no person approved have asked all" in str(error)
            break
        answered += attacker.gradient([0.1] * 4, 0.0) is not None
    assert answered == USUAL.questions(200) == 66


def test_a_study_by_study_search_ends_when_enough_were_looked_at(tmp_path):
    site, _, _ = victim(tmp_path, 200, features=4, policy=USUAL.replace(studies=5))
    attacker = Attacker(site)
    for number in range(4):
        attacker.propose(f"s{number}", site.asks.replace(l1=0.1 + number))
    size = len(audit.lines_of(site.folder))
    for number in range(100):
        with pytest.raises(BadMessage, match="declines: it has looked at 5 studies"):
            attacker.propose(f"t{number}", site.asks.replace(l2=0.1 + number))
    assert len(audit.lines_of(site.folder)) == size  # nor does its disk fill


NEAR = "rows that differ in fewer than 5 from those it told of"


def test_studies_that_differ_in_one_row_or_a_small_group_are_refused(tmp_path):
    """A column with few gaps, dropped, is a filter of rows that the server chooses."""
    site, A, y = victim(tmp_path, 200, features=4)
    table = pd.read_csv(site.data)
    table["gap"] = np.arange(200.0)
    table.loc[7:9, "gap"] = np.nan
    table["wide"] = np.where(np.arange(200) < 20, np.nan, 1.0 * np.arange(200))
    table.to_csv(site.data, index=False)
    few = tuple(f"x{j}" for j in range(4))
    site.asks = Spec(target="y", loss="logistic", missing="drop", features=few)
    attacker = Attacker(site)
    with pytest.raises(BadMessage, match=NEAR):
        attacker.propose("three", site.asks.replace(features=(*few, "gap")))
    attacker.propose("twenty", site.asks.replace(features=(*few, "wide")))


def charter(*features):
    return json.dumps([features, [0, 1]])


FILTERED = dict(target="y", loss="logistic", missing="drop", weights="samples")


def with_gaps(file):
    """Three rows have no value in the last column, by which a study that names it drops them."""
    table = pd.read_csv(file).assign(gap=lambda held: np.arange(1.0 * len(held)))
    table.loc[7:9, "gap"] = np.nan
    table.to_csv(file, index=False)


def test_nor_is_the_first_question_left_out(tmp_path):
    """What only asks of rows, and notes them, could be passed over."""
    site, _, _ = victim(tmp_path, 200, features=2, policy=USUAL.replace(automatic=ASKS))
    with_gaps(site.data)
    site.asks = Spec(**FILTERED, features=("x0", "x1"))
    attacker, spec = Attacker(site), site.asks.replace(features=("x0", "x1", "gap"))
    told = summarise(read_table(spec, site.data), spec)
    attacker.task = lambda name, payload, task=attacker.task: (
        {"summary": json.dumps(told)} if name == "summary" else task(name, payload)
    )
    with pytest.raises(BadMessage, match=NEAR):
        attacker.propose("three", spec)
    how = dict(unmasked=True, choice=Choice(points=3, folds=2))
    path = make_study("path", "clinic", ("north",), spec, **how)
    assert site.decide(path)[0] == "takes part"
    asked = question_payload(Question("rows", {}, 13)) | {
        "charter": '[["x0", "x1", "gap"], [0, 1]]'
    }
    with pytest.raises(BadMessage, match=NEAR):
        site.worker(wire.tag(path.id)).setup["sums"](asked)


def test_nor_is_it_under_masks(tmp_path):
    field = Field(tmp_path, masked=True, policy=LOOSE.replace(count=5), **FILTERED)
    for file in field.files:
        with_gaps(file)
    field.confirm()
    site = field.reception(0)
    (held,) = site.office.confirmed.lists().values()

    def met(*features):
        field.ask(**FILTERED, features=features)
        assert site.decide(field.study)[0] == "takes part"
        (worker,) = site.open.values()
        about = {"members": json.dumps(held["members"]), "charter": charter(*features)}
        return worker.setup["meet"](about)["decision"]

    assert met("a", "b") == "takes part"
    with pytest.raises(BadMessage, match=NEAR):
        met("a", "b", "gap")


def test_a_study_cannot_be_changed_once_it_began(tmp_path):
    """One digit more in its text is another study, which nobody was asked about."""
    field = Field(tmp_path, l1=0.02)
    field.run()
    reception = field.sites["north"].worker
    header = Header(wire.TASK, wire.tag(field.study.id[:-1] + "0"), 0, 1)
    reply = reception.answer(wire.encode(header, {"task": "summary", "points": ""}, {}))
    with pytest.raises(BadMessage, match="takes part in no such study"):
        wire.decode_reply(reply, wire.ANSWER)


def with_secret(folder):
    """A site that has a column beside those that studies may use."""
    site, A, _ = victim(folder, 200, features=2)
    secret, later = 1.0 + np.arange(200) % 7, 1.0 + np.arange(200) % 5
    table = pd.read_csv(site.data).assign(secret=secret, later=later, stage=np.arange(200) % 2)
    table.to_csv(site.data, index=False)
    return site


X0 = {"kind": "number"}
SECRET_AS = {
    "one of all columns": dict(target="y", loss="logistic"),
    "a feature": dict(target="y", loss="logistic", features=("x0", "secret")),
    "a level": dict(
        target="y",
        loss="logistic",
        features=("x0", "secret"),
        schema={"x0": X0, "secret": {"kind": "category", "levels": [str(k) for k in range(1, 8)]}},
    ),
    "a gap": dict(
        target="y", loss="logistic", schema={"x0": X0, "secret": X0 | {"missing": "indicator"}}
    ),
    "a target": dict(target="secret", loss="squared", features=("x0",)),
    "one of several targets": dict(target=("y", "secret"), loss="squared", features=("x0",)),
    "an offset": dict(target="y", loss="logistic", features=("x0",), offset="secret"),
    "an exposure": dict(target="y", loss="poisson", features=("x0",), exposure="secret"),
    "weights": dict(target="y", loss="logistic", features=("x0",), row_weights="secret"),
    "a time": dict(time="secret", event="stage", loss="cox", features=("x0",)),
    "an event": dict(time="later", event="secret", loss="cox", features=("x0",)),
}
RULED = [dict(exclude=("secret",)), dict(columns=("x0", "x1", "y", "stage", "later"))]


@pytest.mark.parametrize("ruled", RULED, ids=["exclude", "columns"])
def test_a_column_that_is_not_for_studies_is_used_as_nothing(ruled, tmp_path):
    site = with_secret(tmp_path)
    site.office.given = LOOSE.replace(**ruled)
    for used, asked in SECRET_AS.items():
        study = make_study("first", "clinic", ("north",), Spec(**asked))
        assert site.decide(study)[0] == "declines", used
        assert "column secret is not for studies" in site.decide(study)[1], used
    schema = Schema.from_dict({"secret": X0})
    study = make_description("second", "clinic", ("north",), schema, 5)
    assert "column secret is not for studies" in site.decide(study)[1]
    assert not told(site.folder, "answer") and not told(site.folder, "told")


MODELS = {
    "a feature": dict(features=["secret"]),
    "a level": dict(
        features=["secret=3"],
        schema={"secret": {"kind": "category", "levels": [str(k) for k in range(1, 8)]}},
    ),
    "a gap": dict(features=["secret=missing"], schema={"secret": X0 | {"missing": "indicator"}}),
    "a target": dict(problem={"target": "secret"}),
    "an offset": dict(problem={"offset": "secret"}),
    "weights": dict(problem={"row_weights": "secret"}),
}


@pytest.mark.parametrize("ruled", RULED, ids=["exclude", "columns"])
def test_a_column_that_is_not_for_studies_is_in_no_model_that_is_evaluated(ruled, tmp_path):
    """What reads a file is the model, whose text an attacker writes."""
    site = with_secret(tmp_path)
    save(
        tmp_path / "fit",
        train(
            Spec(
                **SECRET_AS["a feature"] | dict(features=("x0",)),
                sites=[str(site.data)],
                rounds=2,
                tol=1.0,
            )
        ),
        "test",
    )
    held = documents.unsealed((tmp_path / "fit" / "model.json").read_bytes(), "model")
    site.office.given = LOOSE.replace(automatic=("evaluate",), **ruled)
    for used, other in MODELS.items():
        other = other | {"problem": held["problem"] | other.get("problem", {})}
        text = documents.sealed(held | other).decode()
        study = make_evaluation("how-good", "clinic", ("north",), text, How(draws=0))
        decision, reason = site.decide(study)
        assert decision == "declines" and "secret is not for studies" in reason, used
    text = documents.sealed(held).decode()
    honest = make_evaluation("how-good", "clinic", ("north",), text, How(draws=0))
    assert site.decide(honest) == ("takes part", "")


def test_a_step_on_few_rows_is_a_mean_over_few(tmp_path):
    site, _, _ = victim(tmp_path, 200, features=4, algorithm="fedavg", eta=0.1, batch=49)
    with pytest.raises(BadMessage, match="a step on 49 rows tells of fewer than 50; raise batch"):
        Attacker(site)
    site.asks = site.asks.replace(batch=50)
    Attacker(site)


@pytest.mark.parametrize("masked", [False, True])
def test_a_policy_that_is_tightened_holds_from_the_next_question_on(masked, tmp_path):
    field = Field(tmp_path, masked=masked, l1=0.02)
    if masked:
        field.confirm()
    answers = {site: len(told(tmp_path / site, "answer")) for site in NAMES}

    def strict(federation):
        ask, times = federation.ask, 0

        def asking(task, payload, **more):
            nonlocal times
            times += 1
            if times == 4:
                answers.update({site: len(told(tmp_path / site, "answer")) for site in NAMES})
                field.sites["south"].worker.office.given = LOOSE.replace(rows=60)
            return ask(task, payload, **more)

        federation.ask = asking

    declines = "south declines: it takes part with 60 rows or more"
    words = "^1 members have set their flag" if masked else declines
    with pytest.raises((Refused, TooFewSites), match=words):
        field.run("out", strict)
    assert len(told(tmp_path / "south", "answer")) == answers["south"]
    assert told(tmp_path / "south", "study")[-1]["decision"] == "declines"
    field.sites["south"].worker.office.given = LOOSE
    assert field.run("out" if masked else "again").solution.converged


def test_whatever_is_proposed_gets_a_sentence(tmp_path):
    field, rng = Field(tmp_path), random.Random(0)
    reception, text = field.sites["north"].worker, field.study.text
    for number in range(300):
        at, n = rng.randrange(len(text)), rng.randrange(1, 9)
        odd = text[:at] + rng.choice(("", "\n", '"', "[[", "é", "\x00", "9" * n)) + text[at + n :]
        header = Header(wire.TASK, reception.tag, 0, number)
        reply = reception.answer(
            wire.encode(header, {"task": "propose", "points": ""}, {"study": odd})
        )
        frame = wire.decode(reply)
        if frame.header.kind == wire.REFUSAL:
            assert "cannot read the study" in frame.payload["reason"], frame.payload["reason"]
        else:
            assert frame.payload["decision"] in ("takes part", "waits", "declines")


def test_distances_between_sets_of_rows_count_rows():
    of = lambda *rows: np.array(sorted(rows), np.uint64)
    assert apart(of(1, 2, 3), of(3, 2, 1)) == 0
    assert apart(of(1, 2, 3), of(1, 2, 4)) == 2
    assert apart(of(1, 1, 2), of(1, 2)) == 1


def test_the_policy_that_is_written_is_the_usual_one_and_mistakes_in_it_are_sentences(tmp_path):
    write_policy(tmp_path)
    assert policy_in(tmp_path) == Policy()
    path = tmp_path / "policy.toml"
    for text, words in [
        ("rows = -1", "key 'rows' must be a whole number"),
        ("row = 1", "did you mean 'rows'"),
        ('automatic = ["dance"]', "key 'automatic' must be a list of some of"),
        ("rows = ", "this is not TOML"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            policy_in(tmp_path)


def test_a_policy_that_lost_a_rule_or_all_loosens_nothing(tmp_path):
    """What was missing was taken for the usual: an emptied file lifted every strict rule."""
    write_policy(tmp_path, hessians=False, epsilon=1.0)
    path, audit = tmp_path / "policy.toml", Audit(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    without = lambda key: "".join(line for line in lines if not line.startswith(f"{key} = "))
    cut = ["".join(lines[:i]) for i in range(0, len(lines) - 1, 9)]
    for text in [*cut, without("hessians"), without("epsilon"), without("exclude")]:
        path.write_text(text)
        with pytest.raises(InputError, match="is missing; restore|not TOML"):
            policy_in(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="no such file; restore"):
        policy_in(tmp_path)
    audit.enter("approved", "d", name="d", by="x")
    with pytest.raises(InputError, match="has answered by its rules"):
        write_policy(tmp_path)


# The audit log.


@pytest.fixture
def log(tmp_path):
    made = Audit(tmp_path)
    for number in range(6):
        made.enter("answer", "s" if number % 2 else "t", question=f"q{number}")
    return tmp_path


def rewrite(folder, lines):
    (folder / audit.FILE).write_bytes(b"".join(line + b"\n" for line in lines))


def test_a_log_is_read_as_it_was_written_by_several_processes(log):
    one, other = Audit(log), Audit(log)
    one.enter("answer", "s")
    other.enter("answer", "t")
    one.enter("answer", "t")
    assert Audit(log).answers == {"s": 4, "t": 5} and not list(audit.faults(log))
    assert Audit(log).head == audit.kept_head(log) == audit.head_of(log)


def test_a_log_that_was_cut_edited_or_reordered_is_found_wherever(log):
    lines, head = audit.lines_of(log), audit.kept_head(log)
    for at in range(len(lines)):
        edited = lines[at].replace(b"q%d" % at, b"q9")
        swapped = [*lines]
        swapped[at], swapped[at - 1] = swapped[at - 1], swapped[at]
        for other in (
            lines[:at],
            lines[at + 1 :] if at else [],
            lines[:at] + lines[at + 1 :],
            lines[:at] + [edited] + lines[at + 1 :],
            lines[:at] + [b"{}"] + lines[at + 1 :],
            lines[:at] + [b"torn"] + lines[at + 1 :],
            lines[:at] + [lines[at]] + lines[at:],
            swapped,
        ):
            rewrite(log, other)
            assert len(list(audit.faults(log))) == 1, other
            with pytest.raises(InputError, match="restore it with audit.head"):
                Audit(log)
    rewrite(log, lines)
    assert not list(audit.faults(log))
    (log / audit.HEAD).unlink()
    assert list(audit.faults(log)) == ["its audit.head is missing"]
    rewrite(log, lines[:3])
    assert "it was cut" in list(audit.faults(log, head))[0]  # by a copy that was kept elsewhere


def test_a_line_that_a_crash_cut_short_is_no_forgery_and_the_log_goes_on(log):
    whole = (log / audit.FILE).read_bytes()
    for torn in (b'{"line": 7, "bef', b"x"):
        (log / audit.FILE).write_bytes(whole + torn)
        Audit(log).enter("answer", "s", question="after")
        assert not list(audit.faults(log)) and Audit(log).answers["s"] == 4
        (log / audit.FILE).write_bytes(whole)
        (log / audit.HEAD).write_text(str(Head(6, audit.digest_of(audit.lines_of(log)[-1]))))


def test_every_answer_is_in_the_log_before_it_leaves(tmp_path):
    field, counts = Field(tmp_path, l1=0.02), []

    def fate(way, site, frame):
        if way == "up" and wire.decode(frame).header.kind in (wire.ANSWER, wire.UPLINK):
            counts.append((site, len(audit.lines_of(tmp_path / site))))
        return undisturbed(way, site, frame)

    field.transport.fate = fate
    field.run()
    for site in NAMES:
        assert [n for at, n in counts if at == site] == [*range(1, len(counts) // 3 + 1)]
    answers = told(tmp_path / "north", "answer")
    assert all(len(line["request"]) == 32 and line["numbers"] > 0 for line in answers)
    assert not any("fingerprint" in json.dumps(line) for line in answers)


def test_a_site_whose_log_was_cut_does_not_open(log):
    rewrite(log, audit.lines_of(log)[:2])
    with pytest.raises(InputError, match="it has 2 lines where there were 6: it was cut"):
        Office(log)


# Evaluation over sites.


@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
def test_an_evaluation_over_sites_is_the_one_over_files(loss, tmp_path):
    classes = 3 if loss == "softmax" else 2
    field = Field(tmp_path, classes, LOOSE.replace(automatic=("train", "evaluate")), loss=loss)
    field.run()
    model = tmp_path / "results" / "model.json"
    how = How(0.4, 3, 7)
    about = ("how-good", "field", NAMES, model.read_text(), how)
    field.study = make_evaluation(*about, unmasked=True)
    field.propose()
    found = result_of(field.life("scores"))
    wanted = over_files(field, read_model(model), how)
    assert list(found.all()) == list(wanted.all())
    for name, here in wanted.all().items():
        same(found.all()[name], here, 1e-12)
    scores = evaluate(Applied.of(*read_model(model)), field.files, *how).overall.scores
    np.testing.assert_allclose(*map(list, map(dict.values, (found.overall.scores, scores))))
    evaluation.save(field.life("scores"), found)
    held = json.loads((tmp_path / "scores" / "evaluation.json").read_text())
    assert held["overall"]["rows"] == sum(len(pd.read_csv(file)) for file in field.files)


def over_files(field, model, how):
    """An evaluation of the files, with the draws that sites keep to themselves."""
    applied, told = Applied.of(*model), {}
    for i, name in enumerate(NAMES):
        draw = secret_draws(field.office(i), field.study.id)
        told[name] = tell(applied, applied.table(field.files[i]), draw, how)
    return evaluated(applied.loss.target.scorecard, told.items())


def same(there, here, near, zero=0.0):
    """Scores, intervals and curves, each to so much."""
    near = {"rtol": near, "atol": zero}
    assert there.scores.keys() == here.scores.keys()
    for score, value in here.scores.items():
        np.testing.assert_allclose(there.scores[score], value, **near)
    for score, ends in here.intervals.items():
        np.testing.assert_allclose(there.intervals[score], ends, **near)
    for curve, columns in here.curves.items():
        pair = (pd.DataFrame(there.curves[curve]), pd.DataFrame(columns))
        pd.testing.assert_frame_equal(*pair, **near)


def test_an_evaluation_waits_for_a_person_and_asks_for_nothing_but_its_sums(tmp_path):
    field = Field(tmp_path, rounds=2, tol=1.0)
    field.run()
    text = (tmp_path / "results" / "model.json").read_text()
    field.study = make_evaluation("how-good", "field", NAMES, text, How(draws=0), unmasked=True)
    with pytest.raises(TooFewSites, match="a person there decides about studies that evaluate"):
        field.propose()
    for i in range(3):
        field.office(i).approve(field.study)
    field.propose()
    sites = field.reach(field.study.id)
    sites.ask("sums", {})
    assert field.office(0).audit.answers[field.study.id] == 1  # as of any study
    for task in ("summary", "evaluate", "newton"):
        with pytest.raises(TooFewSites, match="knows no task"):
            sites.ask(task, {"x": np.zeros(5)})
    with pytest.raises(InputError, match="it was damaged or edited"):
        make_evaluation("other", "field", NAMES, text.replace('"loss": "l', '"loss": "L'), How())


@pytest.mark.parametrize("change", ["shape", "name", "text", "rows", "draws"])
def test_sums_that_no_site_would_tell_are_refused_by_name(change, tmp_path):
    field = Field(
        tmp_path, policy=LOOSE.replace(automatic=("train", "evaluate")), rounds=2, tol=1.0
    )
    field.run()
    text = (tmp_path / "results" / "model.json").read_text()
    field.study = make_evaluation("how-good", "field", NAMES, text, How(draws=2), unmasked=True)
    field.propose()
    site, odd = field.sites["west"].worker, {
        "shape": {"sums/loss": np.zeros(3)},
        "name": {"more/loss": np.zeros(())},
        "text": {"sums/loss": "much"},
        "rows": {"sums/rows": np.asarray(-3.0)},
        "draws": {"drawn/loss": np.zeros(1)},
    }  # fmt: skip
    honest = site.answer

    def answer(request):
        frame = wire.decode(honest(request))
        if "sums/rows" not in frame.payload:
            return honest(request)
        return wire.encode(frame.header, frame.settings, frame.payload | odd[change])

    site.answer = answer
    with pytest.raises(InputError, match="Site west"):
        result_of(field.life("scores"))
