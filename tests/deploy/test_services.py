"""Services are kept running, and end with all that they started."""

import os
import signal
import sys

import pytest

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
