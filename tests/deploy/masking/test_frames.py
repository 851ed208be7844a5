"""No frame of a hostile server, one of its members' keys in hand, moves a member.

Whatever it is sent, it tells of the question that the honest run asks at that step, in one form for
one request, and signs no other model; every check that a frame can come to is come to, which is
counted by the sentence that it ends with.
"""

import random
from collections import Counter
from functools import partial

import pytest

from proxfl.deploy.masking import record
from proxfl.deploy.masking.messages import (
    call_in,
    call_payload,
    question_in,
    question_payload,
    replies_in,
    replies_payload,
)
from proxfl.deploy.masking.session import Refused
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import BadMessage, Header
from tests.deploy.masking.hostile import Hostile, moments, sentence_of, sentences, spoilt
from tests.deploy.masking.run import plain_run
from tests.deploy.masking.world import STUDY
from tests.deploy.test_wire import mutants
from tests.outcomes import soak

FRAME, ANSWERED, SIGNED = "no frame", "answered the honest question", "signed the honest model"
TASK = Header(wire.TASK, bytes(32), 0, 1)
# What no frame of a step can come to, and why.
APART = {
    "The charter": "is read when members meet",
    "The list of members": "is read when members meet",
    "A hello has": "its table has rows of that size",
    "The hello of ... is for": "study and members are the site's own, whatever a frame says",
    "The request is for another study": "as those of a hello",
    "The question is not the one": "its name is made of what came",
    "There are no replies": "a step that was answered was so in a session",
    "Step ... asks for another number": "the question would not be the one that follows",
    "Step ... was answered on a processor": "is of a site that moved to another machine",
    "The run has not begun": "is of who signs without any step",
}


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """What is written is looked at, not kept through a loss of power."""

    def append(path, data):
        with path.open("ab") as file:
            file.write(data)

    def cut(path, size):
        with path.open("r+b") as file:
            file.truncate(size)

    monkeypatch.setattr(record, "append", append)
    monkeypatch.setattr(record, "cut", cut)


def answered(moment, payload):
    """One try at a member, which is put back afterwards."""
    party, member, honest = moment.party, moment.member, moment.call.request
    try:
        call = call_in(payload, STUDY, party.members.digest)
        said = member.answer(call)
    except (BadMessage, Refused):
        assert (member.said, member.record.size) == (moment.memory[2], moment.noted[2])
        raise
    finally:
        moment.back()
    assert (call.request.step, call.request.tip) == (honest.step, honest.tip)
    party.spoken.setdefault(("east", call.request.digest), set()).add(said.masked)
    return ANSWERED


def signed(moment, payload):
    model, replies = question_in(payload), replies_in(payload)
    moment.member.sign(model, replies)
    assert model.agrees(plain_run())
    return SIGNED


def attacked(folder, number, seed):
    """How a member takes so many frames, at all moments of a run in turn, by how they end."""
    rng, standing = random.Random(seed), moments(folder)
    last = standing["over"]
    model, replies = plain_run(), last.call.replies
    honest = {name: call_payload(moment.call) for name, moment in standing.items()}
    honest["sign"] = question_payload(model) | replies_payload(replies)
    bytes_of = {name: mutants([framed(whole)], rng) for name, whole in honest.items()}
    servers = {name: Hostile(moment, rng) for name, moment in standing.items()}
    ends: Counter[str] = Counter(frames=number)
    for each in range(number):
        name = [*honest][each % len(honest)]
        match rng.randrange(8):
            case 0:
                frame = next(bytes_of[name])
            case 1 | 2:
                frame = framed(spoilt(honest[name], rng))
            case _ if name == "sign":
                call = Hostile(last, rng).changed()
                frame = framed(question_payload(call.question) | replies_payload(call.replies))
            case _:
                frame = framed(call_payload(servers[name].changed()))
        tried = signed if name == "sign" else answered
        ends[ended(partial(tried, standing.get(name, last)), frame)] += 1
    for moment in standing.values():
        assert moment.told <= {moment.call.question.content}
        assert all(len(said) == 1 for said in moment.party.spoken.values())
    return ends


def framed(payload):
    texts = {name: value for name, value in payload.items() if isinstance(value, str)}
    arrays = {name: value for name, value in payload.items() if name not in texts}
    return wire.encode(TASK, {"task": "step"}, arrays | texts)


def ended(tried, frame):
    try:
        payload = wire.decode(frame).payload
    except BadMessage:
        return FRAME
    try:
        return tried(payload)
    except (BadMessage, Refused) as error:
        return sentence_of(error)


def not_reached(ends, least):
    due = {s for s in sentences() if not s.startswith(tuple(APART))}
    return {s for s in {*due, ANSWERED, SIGNED} if ends[s] < least}


def test_no_frame_moves_a_member_and_every_check_is_come_to(tmp_path):
    assert not not_reached(ends := attacked(tmp_path, 4000, 0), 1), ends
    apart = [why for why in APART if not any(s.startswith(why) for s in sentences())]
    assert not apart and not any(ends[s] for s in sentences() if s.startswith(tuple(APART)))


@pytest.mark.soak
def test_no_frame_of_a_million_moves_a_member(tmp_path):
    run = lambda seeds: attacked(tmp_path / str(seeds[0]), 20_000, seeds[0])
    soak("masked_frames", range(1, 51), 1, run)
