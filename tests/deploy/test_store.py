"""A client's states outlive its process, whole, whatever moment it dies in."""

import errno
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from proxfl.deploy.ops.permissions import lock
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import NEVER, BadMessage, Header
from proxfl.deploy.site.store import Store
from proxfl.errors import DiskError
from tests.storage.faulty import BROKEN, disk

TAG = wire.tag("an experiment")
FIRST = {"v": np.zeros(3)}


def header(step, counted, round=None):
    return Header(wire.VISIT, TAG, 0, step, counted, step if round is None else round)


def state(k):
    return {"v": np.full(3, float(k))}


def answer(store, step, counted):
    """What a worker does: look back, compute, remember; the state counts the steps behind it."""
    request = f"request {step}".encode()
    before = store.answered(header(step, counted), request)
    if before is not None:
        return before
    state = FIRST if counted == NEVER else store.recall(header(step, counted), FIRST)
    now = {"v": state["v"] + 1.0}
    reply = f"reply {step} from {now['v'][0]:.0f}".encode()
    store.remember(header(step, counted), request, reply, now)
    return reply


def test_a_state_is_that_of_the_step_the_server_counted(tmp_path):
    store = Store(tmp_path, TAG, "here")
    assert answer(store, 1, NEVER) == b"reply 1 from 1"
    assert answer(store, 2, 1) == b"reply 2 from 2"
    assert answer(store, 3, 1) == b"reply 3 from 2"  # step 2 was lost
    assert answer(store, 4, 1) == b"reply 4 from 2"  # and so was step 3
    assert answer(store, 5, 4) == b"reply 5 from 3"
    assert store.steps() == [4, 5]


def test_a_repeated_request_gets_the_same_reply_and_changes_nothing(tmp_path):
    store = Store(tmp_path, TAG, "here")
    first = answer(store, 1, NEVER)
    assert answer(store, 1, NEVER) == first
    assert answer(Store(tmp_path, TAG, "here"), 1, NEVER) == first  # also after a restart
    np.testing.assert_array_equal(store.read(1).state["['v']"], np.ones(3))


def test_a_reply_given_again_is_there_for_good_wherever_the_disk_failed_before(tmp_path):
    """A step may be in its place and not stay there: the disk failed after, and the power goes."""
    for k in range(1, 10):
        folder = tmp_path / str(k)
        folder.mkdir()
        with disk(folder, k, BROKEN) as mended:
            with pytest.raises(DiskError):
                answer(Store(folder, TAG, "here"), 1, NEVER)
            mended.at = 0
            answer(Store(folder, TAG, "here"), 1, NEVER)
            mended.after_power_loss(entries_survive=False)
        assert Store(folder, TAG, "here").steps() == [1], k


def test_replays_other_requests_lost_states_and_wrong_rounds_are_refused(tmp_path):
    store = Store(tmp_path, TAG, "here")
    for step in (1, 2, 3):
        answer(store, step, step - 1 if step > 1 else NEVER)
    with pytest.raises(BadMessage, match="Step 1 is a replay: site here has since answered step 3"):
        store.answered(header(1, NEVER), b"request 1")
    with pytest.raises(BadMessage, match="has answered step 3 when asked otherwise"):
        store.answered(header(3, 2), b"another request 3")
    with pytest.raises(BadMessage, match="no state after step 1 .it has 2, 3."):
        store.recall(header(4, 1), FIRST)
    with pytest.raises(BadMessage, match="Round 3, exchange 0 cannot follow round 3, exchange 0"):
        store.recall(header(4, 3, round=3), FIRST)
    with pytest.raises(BadMessage, match="no state after step 3 .it has none."):
        Store(tmp_path, TAG, "elsewhere").recall(header(4, 3), FIRST)
    with pytest.raises(BadMessage, match="no state after step 3 .it has none."):
        Store(tmp_path, wire.tag("another"), "here").recall(header(4, 3), FIRST)


def test_as_many_steps_are_kept_as_a_round_needs(tmp_path):
    store = Store(tmp_path, TAG, "here", generations=4)
    for step in range(1, 10):
        answer(store, step, step - 1 if step > 1 else NEVER)
    assert store.steps() == [6, 7, 8, 9]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_write_cut_short_leaves_the_step_before(moment, tmp_path, monkeypatch):
    store = Store(tmp_path, TAG, "here")
    answer(store, 1, NEVER)

    def cut(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, cut)
        with pytest.raises(DiskError, match="step: the disk is full; free some space"):
            answer(store, 2, 1)
    again = Store(tmp_path, TAG, "here")
    assert again.steps() == [1]
    assert answer(again, 2, 1) == b"reply 2 from 2"


@pytest.mark.parametrize("moment", ["fsync", "replace", "unlink"])
@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_dies_while_writing_leaves_one_step_or_the_next(moment, after, tmp_path):
    """`unlink` is the forgetting of old steps, after the new one is safe."""
    script = f"""
        import os, pathlib
        from proxfl.deploy.site.store import Store
        from tests.deploy.test_store import TAG, NEVER, answer
        store = Store(pathlib.Path({str(tmp_path)!r}), TAG, "here")
        for step in (1, 2, 3):
            answer(store, step, step - 1 if step > 1 else NEVER)
        real = os.{moment}
        def die(*args, **options):
            if {after}:
                real(*args, **options)
            os._exit(9)
        os.{moment} = die
        answer(store, 4, 3)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    env = os.environ | {"JAX_ENABLE_X64": "1"}
    ended = subprocess.run(command, cwd=os.getcwd(), env=env, timeout=120)
    assert ended.returncode == 9
    store = Store(tmp_path, TAG, "here")
    committed = moment == "unlink" or (moment == "replace" and after)
    assert store.steps()[-1] == (4 if committed else 3)
    assert not list(store.folder.glob(".*"))  # nothing torn is left lying about
    assert answer(store, 4, 3) == b"reply 4 from 4"
    assert answer(store, 5, 4) == b"reply 5 from 5"
    assert store.steps() == [4, 5]


def test_a_damaged_file_is_noticed(tmp_path):
    store = Store(tmp_path, TAG, "here")
    answer(store, 1, NEVER)
    data = bytearray(store.path(1).read_bytes())
    data[-40] ^= 1
    store.path(1).write_bytes(data)
    with pytest.raises(BadMessage, match="Site here cannot read its step 1: .* digest"):
        store.recall(header(2, 1), FIRST)


def test_states_are_for_their_owner_and_one_process_only(tmp_path):
    store = Store(tmp_path / "site" / "states", TAG, "here")
    answer(store, 1, NEVER)
    assert store.path(1).stat().st_mode & 0o777 == 0o600
    for folder in (store.folder, *store.folder.parents):
        if folder == tmp_path:
            break
        assert folder.stat().st_mode & 0o777 == 0o700
    handle = lock(tmp_path)
    with pytest.raises(RuntimeError, match="Another process already serves"):
        lock(tmp_path)
    os.close(handle)
    os.close(lock(tmp_path))
