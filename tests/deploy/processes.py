"""Commands in processes of their own, and the services they start."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from proxfl.deploy.ops.services import MARK, runs

PROGRAM = "import sys; from proxfl.cli.main import main; sys.exit(main(sys.argv[1:]))"


class Command:
    """A `proxfl federate` command, with what it prints in a file."""

    def __init__(self, folder, *args):
        self.log = folder / f"{args[0]}-{time.monotonic_ns()}.txt"
        command = [sys.executable, "-c", PROGRAM, "federate", *map(str, args)]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    @property
    def said(self):
        return self.log.read_text()

    def wait_for(self, words, seconds=300):
        deadline = time.monotonic() + seconds
        while words not in self.said:
            assert self.process.poll() is None and time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def ended(self, seconds=600):
        return self.process.wait(seconds)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.ended(120)


@contextlib.contextmanager
def commands(folder):
    """Starts commands, and ends at the end those that still run."""
    started = []

    def start(*args):
        started.append(Command(folder, *args))
        return started[-1]

    try:
        yield start
    finally:
        for command in reversed(started):
            if command.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    command.stop()
            command.process.kill()  # does nothing to one that has ended
        for pid in processes(folder):  # whatever a test that failed has left
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def processes(folder, service=""):
    """The services that run in a folder, or those of one kind, and all that they started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            carried = (entry / "environ").read_bytes().split(b"\0")
            wanted = [v for v in carried if v.startswith(f"{MARK}={service}".encode())]
            mine = any(str(folder).encode() in value for value in wanted)
            found += [int(entry.name)] if mine and runs(int(entry.name)) else []
    return found


def kill(folder, service):
    """As when the power goes."""
    killed = processes(folder, service)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert killed


def until(holds, seconds=400):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
