"""What a server or a member might try: it is refused, or what it gets is uniform."""

import numpy as np
import pytest

from proxfl.deploy.masking.member import ProvenRequest
from proxfl.deploy.masking.messages import reply_payload
from proxfl.deploy.masking.replica import Replica
from proxfl.deploy.masking.reply import reply, total, words_in
from proxfl.deploy.masking.session import Refused
from proxfl.deploy.masking.transcript import Request, next_tip
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import Header
from proxfl.engine import fixed_point
from tests.deploy.masking.run import (
    NAMES,
    Party,
    call_of,
    plain_run,
    program,
    resessioned,
    sums_of,
)  # fmt: skip
from tests.deploy.masking.world import STUDY, world
from tests.storage.faulty import PowerLoss, disk

HERE = Header(wire.TASK, bytes(32), 0, 1)


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


def test_a_hello_of_another_s_former_process_opens_nothing(party):
    """East and north cannot tell that it is stale; south's process does not answer in that session.

    So what the two say stays under pads that nobody can take off.
    """
    stale = party.processes[2].hello
    call = call_of(party, 1)
    party.restart(2)
    call = resessioned(party, call, [*party.greet()[:2], stale])
    with pytest.raises(Refused, match="not the one its process made"):
        party.processes[2].answer(call)
    two = [party.hear(name, call) for name in NAMES[:2]]
    with pytest.raises(Refused, match="one reply from each"):
        total(call.request.session, party.members, call.request.digest, two, 1)
    seen = fixed_point.add(words_in(two[0].masked), words_in(two[1].masked))
    honest = [fixed_point.encode(sums_of(name, call.question)[0]) for name in NAMES[:2]]
    assert (seen[:-1] != fixed_point.add(*honest)).all() and seen[-1].any()
    assert party.run().content == plain_run().content
    assert all(len(said) == 1 for said in party.spoken.values())


def following(party, before, replies, there):
    """The call for the step that follows one by these replies, in the session of another call."""
    about = before.request
    words = total(about.session, party.members, about.digest, replies, before.question.length)
    sums = [fixed_point.decode(exchange.words) for exchange in party.kept]
    asked = Replica(program, [*sums, fixed_point.decode(words)]).next.rounded()
    tip = next_tip(about.tip, about.step, words)
    request = Request(STUDY, there.request.session, about.step + 1, tip, asked.content)
    return ProvenRequest(request, asked, there.hellos, replies)


@pytest.mark.parametrize("anew", [False, True], ids=["one session", "two sessions"])
def test_a_fork_gives_no_sum_of_either_branch_and_ends_the_run(anew, party):
    """South says two things to one question; the server shows one to east, the other to north."""
    call = call_of(party, 2)
    replies, south = party.send(call), party.processes[2]
    if anew:
        party.restart(2)
        south, honest = party.processes[2], party.processes[2].answer_of
        south.answer_of = lambda question: (honest(question)[0] + 1.0, True)
        there = resessioned(party, call, party.greet())
        lied = [party.hear(name, there) for name in NAMES]
    else:
        session, lie = south.sessions[call.request.session], sums_of("south", call.question)[0] + 1
        said = reply(session, south.signer, call.request.digest, lie, True)
        there, lied = call, [*replies[:2], said]
    forks = following(party, call, replies, there), following(party, there, lied, there)
    said = [party.hear(name, fork) for name, fork in zip(NAMES, forks, strict=False)]
    for name, fork in zip(NAMES, forks[::-1], strict=False):
        with pytest.raises(Refused, match="asked otherwise in this session"):
            party.hear(name, fork)
    session = south.sessions[there.request.session]
    for fork, other in zip(forks, (1, 0), strict=True):
        name = fork.request.digest
        third = reply(session, south.signer, name, sums_of("south", fork.question)[0], True)
        with pytest.raises(Refused, match=f"reply of {NAMES[other]} is not signed"):
            total(session.digest, party.members, name, [*said, third], 3)
    assert all(len(said) == 1 for said in party.spoken.values())
    for i in range(3):
        party.restart(i)
    with pytest.raises(Refused, match="Step 2 cannot follow step 3"):
        party.run()


def test_killed_at_a_write_nobody_ever_says_two_things_to_one_request(tmp_path):
    """A kill leaves what was written, a loss of power what was synced; the model is the same."""
    party = Party(tmp_path / "sound")
    with disk(tmp_path / "sound") as sound:
        wanted = party.run().content
    sound.let_go()
    assert sound.done > 50
    for at in range(1, sound.done + 1, 5):
        party = Party(tmp_path / str(at))
        with disk(party.folder, at) as made, pytest.raises(PowerLoss):
            party.run()
        if at % 2:
            made.after_power_loss(entries_survive=at % 4 == 1)
        made.let_go()
        for i in range(3):
            party.restart(i)
        assert party.run().content == wanted, at
        assert all(len(said) == 1 for said in party.spoken.values()), at


def test_a_frame_with_a_flag_looks_as_one_without():
    here, values = world(), np.random.default_rng(0).normal(size=(3, 7))

    def frame(said):
        return wire.encode(HERE._replace(kind=wire.ANSWER), {}, reply_payload(said))

    usual = [frame(said) for said in here.replies(values)]
    values[1, 3] = np.nan
    flagged = [frame(said) for said in here.replies(values)]
    for one, other in zip(usual, flagged, strict=True):
        assert len(one) == len(other)
        assert wire.decode(one).payload.keys() == wire.decode(other).payload.keys()
    assert usual[0] == flagged[0] and usual[1] != flagged[1] and usual[2] == flagged[2]


def test_sums_of_the_largest_numbers_of_all_members_do_not_wrap_around():
    largest = fixed_point.encode(np.array([fixed_point.LIMIT, -fixed_point.LIMIT]))
    words = np.zeros_like(largest)
    for _ in range(64):
        words = fixed_point.add(words, largest)
    assert fixed_point.decode(words).tolist() == [64 * fixed_point.LIMIT, -64 * fixed_point.LIMIT]
