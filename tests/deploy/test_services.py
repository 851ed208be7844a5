"""Services are kept running, and end with all that they started."""

import os
import signal
import sys

import pytest

from proxfl.deploy.ops import services
from proxfl.deploy.ops.services import Service, Supervisor, runs
from proxfl.deploy.transport.flower import launch
from tests.deploy.processes import until


def test_a_supervisor_starts_again_what_ends_and_stops_all_it_started(tmp_path):
    script = (
        "import subprocess, sys, time; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    )
    command = [sys.executable, "-c", script + "; time.sleep(60)"]
    start = lambda: Service("thing", command, tmp_path)
    supervisor = Supervisor({"thing": start})
    try:
        first = supervisor.running["thing"]
        until(lambda: len(first.members()) >= 2)
        before = first.members()
        os.kill(first.process.pid, signal.SIGKILL)
        until(lambda: supervisor.look() or supervisor.running["thing"] is not first)
        assert supervisor.running["thing"].alive and not any(map(runs, before))
    finally:
        supervisor.close()
    assert not supervisor.running["thing"].members()


def test_a_service_that_ends_at_once_is_reported_with_its_last_words(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('no data here')"]
    with pytest.raises(RuntimeError, match="The site ended; its log ends with:\nno data here"):
        launch.join(tmp_path, command)


def test_a_log_has_a_bound_and_the_service_goes_on_writing_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "LARGEST_LOG", 100)
    words = tmp_path / "words"
    os.mkfifo(words)
    script = f"for line in open({str(words)!r}): print(line, end='', flush=True)"
    command = [sys.executable, "-c", script]
    supervisor = Supervisor({"talker": lambda: Service("talker", command, tmp_path)})
    try:
        service = supervisor.running["talker"]
        with words.open("w") as mouth:
            for number in range(12):
                print(f"line {number} of what is said", file=mouth, flush=True)
                until(lambda number=number: service.tail(1).startswith(f"line {number} "))
                supervisor.look()
                kept = [services.old_log(service.log), service.log]
                assert all(path.stat().st_size < 150 for path in kept if path.exists())
        told = "".join(path.read_text() for path in kept)
        assert told.endswith("line 10 of what is said\nline 11 of what is said\n")
    finally:
        supervisor.close()
