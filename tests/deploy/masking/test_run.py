"""Members follow the run: they answer what an honest run asks, whoever the server is."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from proxfl.deploy.masking.record import FILE
from proxfl.deploy.masking.replica import APART, Question, Replica
from proxfl.deploy.masking.session import Refused
from proxfl.deploy.masking.transcript import model_name
from proxfl.engine import fixed_point, grid
from proxfl.errors import InputError
from tests.deploy.masking import run as runs
from tests.deploy.masking.run import (
    FEATURES,
    NAMES,
    STEPS,
    Killed,
    Party,
    call_of,
    plain_run,
    program,
)  # fmt: skip


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


def test_a_masked_run_is_the_plain_one_in_fixed_point_bit_for_bit(party):
    assert party.run().content == plain_run().content


@pytest.mark.parametrize("at", range(1, STEPS + 2))
@pytest.mark.parametrize("who", ["south", "server", "all"])
def test_a_run_that_was_killed_ends_with_the_same_model(who, at, party):
    asked = 0

    def send(call):
        nonlocal asked
        asked += 1
        if asked == at:
            for i, name in enumerate(NAMES):
                party.hear(name, call)  # its reply is on the way when it is killed
                if who in (name, "all"):
                    party.restart(i)
            if who in ("server", "all"):
                raise Killed
        return party.send(call)

    try:
        found = party.run(send)
    except Killed:
        found = party.run(send)
    assert found.content == plain_run().content
    # Nobody said two things to one request: a pad used twice would show a difference.
    assert all(len(said) == 1 for said in party.spoken.values())


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_member_killed_at_its_write_says_nothing_twice(moment, party, monkeypatch):
    """Before the write no reply has left; after it, the step is asked anew under other pads."""
    member = party.processes[1]
    add, times = member.record.add, 0

    def dying(entry):
        nonlocal times
        times += 1
        if times == 3:
            if moment == "after":
                add(entry)
            raise Killed
        add(entry)

    monkeypatch.setattr(member.record, "add", dying)
    with pytest.raises(Killed):
        party.run()
    party.restart(1)
    assert party.run().content == plain_run().content
    assert all(len(said) == 1 for said in party.spoken.values())


def steered(party, change):
    """A server that asks, at the third step, about a model of its own choosing."""

    def send(call):
        if call.request.step == 3:
            other = Question("gradient", {"x": change(call.question.numbers["x"])}, 3)
            request = call.request._replace(question=other.content)
            call = call._replace(request=request, question=other)
        return party.send(call)

    return lambda: party.run(send)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: grid.rounded(x + 1e7 * np.eye(3)[0]),
        lambda x: grid.rounded(x + 2 * APART * np.abs(x).max() * np.eye(3)[1]),
        lambda x: x + 1e-3 * grid.step_of(x),
        lambda x: x.astype(np.float32),
        lambda x: x[:2],
        lambda x: x * np.nan,
    ],
    ids=["far", "near", "off the grid", "single", "shorter", "not numbers"],
)
def test_a_server_alone_gets_no_question_through(change, party):
    with pytest.raises(Refused, match="Step 3 is not the question that follows"):
        steered(party, change)()
    assert party.run().content == plain_run().content  # and the honest run goes on


def test_machines_that_round_differently_follow_the_same_run(tmp_path, monkeypatch):
    """Members whose arithmetic differs in the last bits come to the same places."""
    party, drawn = Party(tmp_path), np.random.default_rng(1)

    def elsewhere(ask):
        def nearly(question):
            numbers = {k: v * (1 + 1e-15 * drawn.normal()) for k, v in question.numbers.items()}
            return ask(replace(question, numbers=numbers))

        return program(nearly)

    for member in party.processes:
        member.program = elsewhere
    assert party.run().content == plain_run().content


def test_a_question_is_one_s_own_if_it_is_near_by_its_largest_number():
    own = {"x": np.array([2.0, 0.5]), "small": np.array(1e-20), "k": np.array([3])}
    asked = lambda **numbers: Question("gradient", own | numbers, 2).rounded()
    agrees = lambda **numbers: asked(**numbers).agrees(Question("gradient", own, 2))
    for near in (0.0, 2.0**-30, -APART):
        assert agrees(x=own["x"] + near) and agrees(small=np.array(near))
    assert not agrees(x=own["x"] + 4 * APART) and not agrees(small=np.array(4 * APART))
    assert not agrees(k=np.array([4])) and not agrees(x=np.array([2.0, np.inf]))
    nothing = Question("gradient", {"x": np.zeros(2)}, 2)
    tiny = Question("gradient", {"x": np.full(2, 2.0**-99)}, 2)
    assert nothing.agrees(nothing) and not tiny.agrees(nothing)


def middling(ask):
    """A run whose second coordinate is in the middle of two places."""
    x = np.array([1.0, 0.5 + 0.5 * 2.0**-39, 0.0])
    for _ in range(3):
        total = ask(Question("gradient", {"x": x}, FEATURES))
        x = x + 2.0**-39 * np.array([0.0, 1.0, 0.0]) + 0.0 * total
    return Question("model", {"x": x}, 0)


def beside(ask):
    """The server's side of the same, which asks about the other of the two, or further away."""
    aside = iter([0.0, 2.0**-26, -(2.0**-30), 0.0])

    def asking(question):
        x, place = question.rounded().numbers["x"].copy(), question.numbers["x"][1]
        x[1] = 2 * place - x[1] + next(aside)
        assert x[1] != question.rounded().numbers["x"][1]
        return ask(replace(question, numbers={"x": x}))

    return middling(asking)


@pytest.mark.parametrize("restarted", [False, True])
def test_which_of_the_places_nearby_is_asked_about_changes_no_answer(
    restarted, tmp_path, monkeypatch
):
    """Else the difference of two answers would show the sum's curvature in that direction."""
    monkeypatch.setattr(runs, "program", middling)
    parties = [Party(tmp_path / name) for name in ("honest", "hostile")]

    def send(call):
        said = parties[1].send(call)
        if restarted and call.request.step == 2 and parties[1].greet() == first:
            for i in range(3):
                parties[1].restart(i)
            return parties[1].send(call)  # the session has lapsed: all are asked anew
        return said

    first = parties[1].greet()
    parties[0].conductor().run(middling)
    parties[1].conductor(send).run(beside)
    sums = [[exchange.words.tolist() for exchange in party.kept] for party in parties]
    assert sums[0] == sums[1] and len(sums[0]) == 3
    assert (parties[1].greet() != first) == restarted


def test_a_site_that_answered_a_neighbour_goes_on_where_it_rounds_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "program", middling)
    party = Party(tmp_path)

    def send(call):
        party.send(call)
        raise Killed

    with pytest.raises(Killed):
        party.conductor(send).run(beside)
    turned = lambda ask: middling(lambda q: ask(replace(q, numbers={"x": q.numbers["x"] + 1e-15})))
    for i in range(3):
        party.restart(i)
    party.processes[0].program = turned
    with pytest.raises(Refused, match="on a processor that rounds otherwise; go on there"):
        party.conductor().run(beside)
    party.restart(0)
    party.conductor().run(beside)


def test_another_step_study_session_tip_or_question_is_refused(party, monkeypatch):
    """Names by their last bit, and replies by the same keys of other runs."""
    call, member = call_of(party, 3), party.processes[0]

    def replies_elsewhere(folder, step):
        other = Party(party.folder / f"{folder} {step}", signers=party.signers)
        return call_of(other, step).replies

    change = lambda **fields: call._replace(request=call.request._replace(**fields))
    about, elsewhere = call.request, [replies_elsewhere("session", step) for step in (3, 4)]
    monkeypatch.setattr(runs, "STUDY", bytes(32))
    elsewhere.append(replies_elsewhere("study", 3))
    asked = replace(call.question, kind="rows")
    for wrong, words in [
        (change(study=twin(about.study)), "another study"),
        (change(session=twin(about.session)), "another session"),
        (change(step=4), "Step 4 cannot follow step 2"),
        (change(step=1), "Step 1 cannot follow step 2"),
        (change(tip=twin(about.tip)), "does not follow from the sums"),
        (change(question=twin(about.question)), "not the one that the request names"),
        (change(question=asked.content)._replace(question=asked), "not the question that follows"),
        *((call._replace(replies=other), "reply of east is not signed") for other in elsewhere),
    ]:
        with pytest.raises(Refused, match=words):
            member.answer(wrong)
    assert member.answer(call).masked
    for wrong in (change(tip=twin(about.tip)), change(question=b"another")):
        with pytest.raises(Refused, match="asked otherwise in this session"):
            member.answer(wrong)


def twin(name: bytes) -> bytes:
    """What differs in the last bit alone."""
    return name[:-1] + bytes([name[-1] ^ 1])


def test_sums_that_are_not_of_all_signed_replies_are_refused(party):
    def send(call):
        if call.request.step == 3:
            north = call.replies[1]
            forged = north._replace(masked=bytes([north.masked[0] ^ 1]) + north.masked[1:])
            for replies in ([], call.replies[:2], [call.replies[0], forged, call.replies[2]]):
                with pytest.raises(Refused, match="one reply from each|north is not signed"):
                    party.processes[0].answer(call._replace(replies=replies))
        return party.send(call)

    assert party.run(send).content == plain_run().content


@pytest.mark.parametrize("back", [1, 2, 4])
def test_a_folder_that_was_set_back_is_noticed(back, party):
    """By one step, too, which a crash alone might have left another site ahead."""

    def send(call):
        if call.request.step == 5 - back:
            shutil.copytree(party.folder / "east", party.folder / "old")
        if call.request.step == 5:
            raise Killed
        return party.send(call)

    with pytest.raises(Killed):
        party.run(send)
    shutil.rmtree(party.folder / "east")
    shutil.copytree(party.folder / "old", party.folder / "east")
    for i in range(3):
        party.restart(i)
    with pytest.raises(Refused, match="old copy"):
        party.run()


def test_a_torn_last_entry_was_never_answered_and_a_damaged_one_is_named(party):
    party.run()
    path = party.folder / "north" / FILE
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    assert party.process("north").record.last == STEPS
    for place in (0, 3, 7, 8, 40, 60):  # in the length, in its digest, in what it is of
        for bit in (1, 128):
            path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
            with pytest.raises(InputError, match="entry 1 is damaged"):
                party.process("north")
            assert len(path.read_bytes()) == len(data)


def test_no_key_of_a_session_is_on_any_disk(party):
    party.run()
    secrets = [s for m in party.processes for x in m.sessions.values() for s in x.secrets.values()]
    secrets += [m.own.secret.private_bytes_raw() for m in party.processes]
    held = b"".join(path.read_bytes() for path in party.folder.rglob("*") if path.is_file())
    assert held and not any(secret in held for secret in secrets)


def test_all_members_sign_the_model_they_have_followed_and_no_other(party):
    found = party.run()
    last = party.kept[-1].replies
    conductor = party.conductor()
    conductor.run(program)
    name = model_name(conductor.tip, found.content)
    for i, member in enumerate(party.processes):
        assert party.members.signed(i, member.sign(found, last), name)
        other = replace(found, numbers={"x": found.numbers["x"] + 1e-3})
        with pytest.raises(Refused, match="not the model"):
            member.sign(other, last)


def test_with_a_member_on_its_side_the_server_chooses_the_next_model(tmp_path):
    """What is not promised: who sees the others' sum can make the whole sum what it likes.

    South learns the sum of the others from an honest step before; here it knows their data.
    """
    wanted = np.array([3.0, -2.0, 1.0])

    def answers(name, question):
        honest = runs.sums_of(name, question)
        if name != "south" or question.kind == "rows":
            return honest
        others = sum(runs.sums_of(n, question)[0] for n in NAMES if n != "south")
        return (question.numbers["x"] - wanted) * 24 / 0.3 - others, True

    asked = []
    party = Party(tmp_path, answers)
    party.run(lambda call: asked.append(call.question) or party.send(call))
    np.testing.assert_allclose(asked[2].numbers["x"], wanted, atol=1e-10)


def test_a_replica_is_a_function_of_its_sums():
    sums = []

    def ask(question):
        found = sum(runs.sums_of(name, question)[0] for name in NAMES)
        sums.append(found)
        return found

    expected = program(ask)
    one = Replica(program, sums[:4])
    for total in sums[4:]:
        one.give(total)
    assert one.next.model.content == expected.content
    with pytest.raises(ValueError, match="has ended"):
        one.give(sums[0])
    with pytest.raises(KeyError):
        Replica(lambda ask: {}[ask(Question("rows", {}, 1)).item()], [np.ones(1)])


def test_what_a_member_may_not_tell_stops_the_step_and_names_nobody(tmp_path):
    def answers(name, question):
        values, _ = runs.sums_of(name, question)
        return values, not (name == "north" and question.kind == "gradient")

    party = Party(tmp_path, answers)
    with pytest.raises(Refused, match="^1 members have set their flag") as told:
        party.run()
    assert not any(name in str(told.value) for name in NAMES)


def test_the_server_keeps_nothing_but_masked_replies_and_sums(party):
    party.run()
    asked = []
    party.conductor().run(lambda ask: program(lambda q: asked.append(q.rounded()) or ask(q)))
    for question, exchange in zip(asked, party.kept, strict=True):
        for name, reply in zip(NAMES, exchange.replies, strict=True):
            plain = fixed_point.encode(runs.sums_of(name, question)[0])
            assert not any(word.tobytes() in reply.masked for word in plain.astype("<u8"))
