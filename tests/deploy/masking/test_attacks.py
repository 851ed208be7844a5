"""What a server or a member might try: it is refused, or what it gets is uniform."""

from collections import Counter

import numpy as np
import pytest

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
    Killed,
    Party,
    plain_run,
    program,
    resessioned,
    sums_of,
)  # fmt: skip
from tests.deploy.masking.world import STUDY, world
from tests.outcomes import soak
from tests.storage.faulty import PowerLoss, disk

HERE = Header(wire.TASK, bytes(32), 0, 1)


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


def call_of(party, step):
    """The server's call for a step, of a run that nobody answered from there on."""
    found = []

    def send(call):
        if call.request.step == step:
            found.append(call)
            raise Killed
        return party.send(call)

    with pytest.raises(Killed):
        party.run(send)
    return found[0]


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


def test_a_fork_gives_no_sum_of_either_branch_and_ends_the_run(party):
    """South signs two replies to one request; the server shows one to east, the other to north."""
    branches = []

    def send(call):
        if call.request.step < 3:
            replies = party.send(call)
            if call.request.step == 2:
                south, about = party.processes[2], call.request
                session = south.sessions[about.session]
                lie = sums_of("south", call.question)[0] + 1.0
                said = reply(session, south.signer, about.digest, lie, True)
                branches.append((call, [*replies[:2], said]))
            return replies
        before, replies = branches[0]
        session, length = call.request.session, before.question.length
        words = total(session, party.members, before.request.digest, replies, length)
        sums = [fixed_point.decode(party.kept[0].words), fixed_point.decode(words)]
        other = Replica(program, sums).next.rounded()
        tip = next_tip(before.request.tip, 2, words)
        asked = Request(STUDY, session, 3, tip, other.content)
        fork = call._replace(request=asked, question=other, replies=replies)
        said = [party.hear("east", call), party.hear("north", fork)]
        for name, branch in (("east", fork), ("north", call)):
            with pytest.raises(Refused, match="asked otherwise in this session"):
                party.hear(name, branch)
        for branch in (call, fork):
            third = party.hear("south", call) if branch is call else said[1]._replace(number=2)
            with pytest.raises(Refused, match="not signed"):
                total(session, party.members, branch.request.digest, [*said, third], 3)
        raise Killed

    with pytest.raises(Killed):
        party.run(send)
    assert all(len(said) == 1 for said in party.spoken.values())
    for i in range(3):
        party.restart(i)
    with pytest.raises(Refused):
        party.run()


def killed(folder, moments=lambda done: range(1, done + 1)):
    """Kill everybody at writes of a run: nobody ever says two things to one request.

    A kill leaves what was written, a loss of power what was synced; the model is the same.
    """
    party = Party(folder / "sound")
    with disk(folder / "sound") as sound:
        wanted = party.run().content
    sound.let_go()
    for at in (chosen := moments(sound.done)):
        party = Party(folder / str(at))
        with disk(party.folder, at) as made, pytest.raises(PowerLoss):
            party.run()
        if at % 2:
            made.after_power_loss(entries_survive=at % 4 == 1)
        made.let_go()
        for i in range(3):
            party.restart(i)
        assert party.run().content == wanted, at
        assert all(len(said) == 1 for said in party.spoken.values()), at
    return len(chosen)


def test_killed_at_a_write_nobody_ever_says_two_things_to_one_request(tmp_path):
    assert killed(tmp_path, lambda done: range(1, done + 1, 5)) > 10


@pytest.mark.soak
def test_killed_at_any_write_nobody_ever_says_two_things_to_one_request(tmp_path):
    soak("masked_kills", range(1), 1, lambda seeds: Counter({"writes": killed(tmp_path)}))


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
