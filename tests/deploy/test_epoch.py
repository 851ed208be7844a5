"""The lives of a server are counted, not timed, and no count locks an experiment."""

import time

import pytest

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.epoch import next_epoch
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.site.store import LONGEST_JUMP, Store
from tests.deploy.field import Field
from tests.deploy.test_store import TAG, answer, header
from tests.sentences import said


def numbered(epoch, step):
    return (epoch << wire.STEP_BITS) + step


def test_every_life_has_a_higher_number_whatever_the_clock_says(tmp_path, monkeypatch):
    path, found = tmp_path / "server" / "epoch", []
    for moment in (2e9, 1e9, 0.0):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        found.append(next_epoch(path))
    assert found == [1, 2, 3]


def test_a_lost_count_goes_on_from_the_checkpoint(tmp_path):
    assert next_epoch(tmp_path / "epoch", [wire.NEVER, numbered(7, 3), numbered(6, 9)]) == 8


def test_a_count_that_is_none_is_said_and_kept(tmp_path):
    path = tmp_path / "epoch"
    for text in ("", "seven", "-3", str(wire.LAST_EPOCH)):
        path.write_text(text)
        assert str(path) in said(next_epoch, path)
        assert path.read_text() == text


@pytest.mark.parametrize("first", [True, False])
def test_a_jump_to_the_last_epoch_is_refused_and_locks_nothing(first, tmp_path):
    store = Store(tmp_path, TAG, "here")
    if not first:
        answer(store, numbered(1, 1), wire.NEVER)
    for epoch in (wire.LAST_EPOCH, LONGEST_JUMP + 2):
        with pytest.raises(BadMessage, match=f"in life {epoch}, but site here knows of"):
            store.answered(header(numbered(epoch, 1), wire.NEVER), b"request")
    assert answer(store, numbered(2, 1), wire.NEVER) == b"reply %d from 1" % numbered(2, 1)


def test_a_server_that_lost_its_folder_is_told_the_number_and_goes_on_with_it(tmp_path):
    field = Field(tmp_path, algorithm="decoupled", l1=0.02, tol=1e-2)
    field.lives = 40  # the next is 41
    field.run("before")
    field.lives = 0
    with pytest.raises(TooFewSites, match="write 41 into its file server/epoch and run again"):
        field.run("lost")
    path = tmp_path / "epoch"
    path.write_text("41\n")
    field.lives = next_epoch(path) - 1
    field.run("again")
    model = lambda out: (tmp_path / out / "model.json").read_bytes()
    assert model("again") == model("before")
