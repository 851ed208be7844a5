"""A member whose program, memory or disk fails says so, and goes on when asked again."""

import gc
import threading
import types

import numpy as np
import pytest

from proxfl.deploy.masking.journal import Journal
from proxfl.deploy.masking.replica import Question, Replica
from proxfl.errors import DiskError
from tests.deploy.masking import run as runs
from tests.deploy.masking.run import NAMES, Party, plain_run, program
from tests.storage.faulty import FULL, disk


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


def failing(times, error, at):
    """The program, which fails at its question of a number, the first times it comes there."""
    left = times

    def spoilt(ask):
        asked = 0

        def asking(question):
            nonlocal asked, left
            asked += 1
            if asked == at and left:
                left -= 1
                raise error
            return ask(question)

        return program(asking)

    return spoilt


def insist(party, error, tries=3):
    """A run, begun again wherever it ends with an error."""
    for _ in range(tries):
        try:
            return party.run()
        except error:
            continue
    raise AssertionError("The run did not end.")


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_program_that_fails_once_ends_nothing(at, party):
    """A transient lack of memory, and a server that asks again."""
    party.processes[1].program = failing(1, MemoryError("for once"), at)
    with pytest.raises(MemoryError):
        party.run()
    assert party.run().content == plain_run().content
    assert all(len(said) == 1 for said in party.spoken.values())


def test_a_program_that_always_fails_says_so_each_time_it_is_asked(party):
    party.processes[1].program = failing(99, KeyError("a bug"), 3)
    for _ in range(3):
        with pytest.raises(KeyError, match="a bug"):
            party.run()


def test_whoever_asks_a_replica_whose_program_has_failed_does_not_wait():
    replica = Replica(failing(1, KeyError("a bug"), 2))
    for _ in range(2):
        with pytest.raises(KeyError, match="a bug"):
            replica.give(np.ones(1))
    closed = Replica(program)
    closed.close()
    with pytest.raises(ValueError, match="Nobody follows"):
        closed.give(np.ones(1))


def test_a_replica_that_nobody_holds_leaves_no_thread():
    before = set(threading.enumerate())
    replica = Replica(program, [np.ones(1)])
    (own,) = set(threading.enumerate()) - before
    del replica
    gc.collect()
    own.join(60)
    assert not own.is_alive()


@pytest.mark.parametrize("part", ["answer_of", "noise_of", "record.add", "written"])
@pytest.mark.parametrize("step", [1, 4])
def test_whatever_fails_after_the_sum_was_followed_the_retry_comes_to_the_same(part, step, party):
    """The site had followed the sum and had not noted it: asked again it must follow it once."""
    member = party.processes[1]
    owner = member.record if "." in part or part == "written" else member
    name = "add" if owner is member.record else part
    whole, left = getattr(owner, name), [1]

    def once(*about):
        if member.record.last == step - 1 and left:
            left.pop()
            if part == "written":  # all of it, and the disk failed at the very end
                path, data = member.record.path, about[0].sealed
                path.write_bytes((path.read_bytes() if path.exists() else b"") + data)
            if part == "record.add":  # half of it
                with member.record.path.open("ab") as file:
                    file.write(about[0].sealed[:30])
            raise DiskError("the disk is full.")
        return whole(*about)

    setattr(owner, name, once)
    assert insist(party, DiskError).content == plain_run().content and not left
    assert all(len(said) == 1 for said in party.spoken.values())
    assert party.process("north").record.last == runs.STEPS + 1  # its file is whole


def test_disks_that_fill_at_any_write_of_a_member_end_nothing(tmp_path):
    with disk(tmp_path / "sound") as sound:
        Party(tmp_path / "sound").run()
    sound.let_go()
    for at in range(2, sound.done, 5):
        party = Party(tmp_path / str(at))
        with disk(party.folder, at, FULL) as made, pytest.raises(DiskError):
            party.run()
        made.let_go()
        assert party.run().content == plain_run().content, at  # the same processes
        assert all(len(said) == 1 for said in party.spoken.values()), at


def held(*begin):
    """The bytes of all that can be reached from some objects, but for code and the run-time's."""
    seen, left, size = set(), list(begin), 0
    skipped = (type, types.ModuleType, types.FunctionType, types.FrameType, threading.Thread)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, skipped):
            continue
        seen.add(id(one))
        size += one.__sizeof__()
        left += gc.get_referents(one)
    return size


def test_memory_held_does_not_grow_with_rounds(tmp_path, monkeypatch):
    """Neither of a member nor of what the server keeps; each sum of long vectors would show."""
    size, sizes = 500, {}

    def long_program(ask):
        x = np.zeros(size)
        for _ in range(24):
            x = x + ask(Question("sum", {"x": x}, size)) / 1e3
        return Question("model", {"x": x}, 0)

    monkeypatch.setattr(runs, "program", long_program)
    party = Party(tmp_path, lambda name, question: (question.numbers["x"] * 0 + 1.0, True))
    party.kept, journal = [], Journal(tmp_path / "journal")
    party.spoken = None

    def send(call):
        sizes[call.request.step] = held(party.processes[0].__dict__, journal)
        return [member.answer(call) for member in party.processes]

    conductor = party.conductor(send)
    conductor.keep, conductor.before = journal.add, journal
    model = conductor.run(long_program)
    assert len(journal) == 24 and sizes[24] < sizes[4] + 8 * size
    # Begun anew, both come to the end by what is on their disks.
    party.restart(0)
    again = party.conductor(send)
    again.before = Journal(tmp_path / "journal")
    assert again.run(long_program).content == model.content
    assert held(again.before) < held(journal) + 8 * size
    assert party.processes[0].sign(model, journal[-1].replies)
    assert len(NAMES) == len(journal[-1].replies) and not journal[0].replies
