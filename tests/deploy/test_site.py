"""A site's processes: light where they are short-lived, private, patient, and kept running."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from proxfl.deploy import client, launch, pipe, wire
from proxfl.deploy.app import write_app
from proxfl.deploy.envelope import unwrap, wrap
from proxfl.deploy.local import RUN, inside_flower
from proxfl.deploy.server.federation import settings_of
from proxfl.deploy.ops.services import Keeper, Service, environment, runs
from proxfl.deploy.protocol.wire import BadMessage, Header
from tests import cases
from tests.deploy import real
from tests.deploy.processes import until


def test_the_flower_app_of_a_site_imports_no_jax_and_no_data():
    code = (
        "import sys, proxfl.deploy.client; "
        "heavy = {'jax', 'pandas', 'scipy', 'optax'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


def context(folder):
    return Context(RUN, 7, {"folder": str(folder), "site": "north"}, RecordDict(), {})


def asked(frame, folder):
    """What the ClientApp answers, as Flower would call it."""
    with inside_flower():
        message = Message(wrap(frame), 7, "train")
        return wire.decode(unwrap(client.app(message, context(folder))))


def test_a_site_without_its_worker_says_so_and_is_worth_asking_again(tmp_path, monkeypatch):
    monkeypatch.setattr(pipe, "CONNECT_SECONDS", 0.2)
    hello = wire.encode(Header(wire.HELLO, wire.tag("x"), wire.ANY_SITE), {}, {})
    answer = asked(hello, tmp_path)
    assert answer.header.kind == wire.REFUSAL and answer.settings["passing"].all()
    assert answer.payload["reason"] == (
        "The worker of site north does not answer (FileNotFoundError); restart it."
    )


def test_what_flower_brings_that_is_not_ours_is_refused():
    with inside_flower():
        empty = Message(RecordDict(), 7, "train")
        with pytest.raises(BadMessage, match="does not hold one ProxFL message"):
            unwrap(empty)
        stuffed = Message(wrap(b"x"), 7, "train")
        stuffed.content["more"] = wrap(b"y")["proxfl"]
        with pytest.raises(BadMessage, match="and nothing else"):
            unwrap(stuffed)


def first_visit():
    header = Header(wire.VISIT, wire.tag(real.NAME), 0)
    settings = settings_of(real.METHOD, real.METHOD)
    return wire.encode(header, settings, {"value": np.zeros(cases.D)})


def test_a_worker_killed_in_the_middle_answers_the_same_once_it_is_back(tmp_path):
    """Behind a path too long for a Unix socket, in a folder nobody else may open."""
    real.make_data(tmp_path)
    folder = tmp_path / ("a" * 100) / "north"
    samples = str(tmp_path / "north.npz")
    command = [sys.executable, "-m", "tests.deploy.real", str(folder), "north", samples]
    keeper = Keeper({"worker": lambda: launch.start_worker(folder, command)})
    try:
        assert stat.S_IMODE((folder / pipe.SOCKET).stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        before = asked(first_visit(), folder)
        assert before.header.kind == wire.UPLINK
        second = Service("second", command, tmp_path / "log", environment(tmp_path))
        assert second.process.wait(60) == 1
        assert "Another process already serves" in second.tail()
        os.kill(keeper.running["worker"].process.pid, signal.SIGKILL)
        told = []
        asking = threading.Thread(
            target=lambda: told.append(pipe.request(folder, first_visit(), 60.0))
        )
        asking.start()
        while asking.is_alive():
            keeper.look()
            time.sleep(0.1)
        again = wire.decode(told[0])
        np.testing.assert_array_equal(again.payload["value"], before.payload["value"])
    finally:
        keeper.close()
    assert not (folder / pipe.SOCKET).exists() and not keeper.running["worker"].members()


def test_a_keeper_starts_again_what_ends_and_stops_all_it_started(tmp_path):
    script = (
        "import subprocess, sys, time; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    )
    command = [sys.executable, "-c", script + "; time.sleep(60)"]
    keeper = Keeper({"thing": lambda: Service("thing", command, tmp_path, environment(tmp_path))})
    try:
        first = keeper.running["thing"]
        until(lambda: len(first.members()) >= 2)
        before = first.members()
        os.kill(first.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while keeper.running["thing"] is first and time.monotonic() < deadline:
            keeper.look()
            time.sleep(0.05)
        assert keeper.running["thing"].alive and not any(map(runs, before))
    finally:
        keeper.close()
    assert not keeper.running["thing"].members()


def test_a_service_that_ends_at_once_is_reported_with_its_last_words(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('no data here')"]
    with pytest.raises(RuntimeError, match="The worker ended; its log ends with:\nno data here"):
        launch.start_worker(tmp_path, command)


def test_an_app_is_written_whole_and_names_its_driver(tmp_path):
    import tomllib

    write_app(tmp_path, "sparse", {"drive": "a.b:c", "rounds": 3, "tol": 1e-6, "quick": True})
    app = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert app["tool"]["flwr"]["app"]["components"] == {
        "serverapp": "proxfl.deploy.server:app",
        "clientapp": "proxfl.deploy.client:app",
    }
    assert app["tool"]["flwr"]["app"]["config"] == {
        "drive": "a.b:c", "rounds": 3, "tol": 1e-6, "quick": True,
    }  # fmt: skip
    with pytest.raises(ValueError, match="must name its driver"):
        write_app(tmp_path, "sparse", {})
