"""Processes that outlive the call that starts them, and end when told, with all their children.

Flower's processes start others, some in sessions of their own. Each service therefore puts a mark
into the environment its children inherit, and stopping it ends whatever still carries the mark. It
is made of its name and folder: what a killed program left running there ends at the next start.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.ops.stopping import pause
from proxfl.errors import InputError
from proxfl.storage.files import whole

log = logging.getLogger("proxfl.deploy")

MARK = "PROXFL_SERVICE"
START_SECONDS = 60.0
STOP_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 20.0  # before a service is started again
LARGEST_LOG = 2**23  # bytes: some eighty thousand lines
TAIL = 2**14  # bytes at the end of a log, of which its last lines are shown
KILL_SECONDS = 10.0  # a killed process is gone at once, unless it hangs in the system
SOURCES = Path(__file__).parents[3]  # the folder that this package is in


def environment() -> dict[str, str]:
    """What services run in: this installation before any other."""
    first = {"PATH": Path(sys.executable).parent, "PYTHONPATH": SOURCES}
    paths = {
        name: os.pathsep.join([str(path), *filter(None, [os.environ.get(name)])])
        for name, path in first.items()
    }
    return os.environ | paths


class Service:
    """A running command, with its output in a file and `settings` in its environment."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        settings: Mapping[str, str] | None = None,
    ):
        self.name = name
        self.log = folder / f"{name}.log"
        self.mark = f"{name}@{private_folder(folder).resolve()}"
        end_all(self.members)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(command),
                env=environment() | dict(settings or {}) | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Ask it to end, then make it and all it started end."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """As when the power goes: kill -9 for it and everything it started."""
        self.process.kill()
        end_all(self.members)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_SECONDS)

    def rotate_log(self) -> None:
        """Begin its log anew once it is large; one old log is kept beside it.

        The process goes on writing to the file it has open, at its end: so that is emptied, not
        replaced, and a line written just then may be lost.
        """
        if self.log.exists() and self.log.stat().st_size > LARGEST_LOG:
            # Whatever is wrong with the disk, the room is what counts.
            with contextlib.suppress(OSError, InputError), self.log.open("rb") as said:
                with whole(old_log(self.log), private=True) as kept:
                    shutil.copyfileobj(said, kept)
            os.truncate(self.log, 0)

    def members(self) -> list[int]:
        """The processes that carry this service's mark."""
        return [pid for pid, mark in marked().items() if mark == self.mark]

    def tail(self, lines: int = 20) -> str:
        """The end of what it said."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def once(self, ready: Callable[[], bool], what: str) -> "Service":
        """Itself when `ready()` holds; raises its last words if it ends or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        try:
            while not ready():
                if not self.alive or time.monotonic() > deadline:
                    state = "is still not ready" if self.alive else "ended"
                    raise RuntimeError(f"{what} {state}; its log ends with:\n{self.tail()}")
                pause(0.1)
        except BaseException:
            self.kill()
            raise
        return self


def old_log(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def marked() -> dict[int, str]:
    """The marks of all running processes that carry one, by process."""
    return {
        process.pid: process.info["environ"][MARK]
        for process in psutil.process_iter(["environ", "status"])
        if MARK in (process.info["environ"] or {})
        and process.info["status"] != psutil.STATUS_ZOMBIE
    }


def runs(pid: int) -> bool:
    """Whether there is such a process; a zombie, which nobody asked about yet, is none."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all(members: Callable[[], list[int]]) -> None:
    """Kill until there is none left: they may be starting others meanwhile."""
    deadline = time.monotonic() + KILL_SECONDS
    while (left := members()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


class Supervisor:
    """Keeps services running: one that ends is started again, after ever longer pauses.

    One that cannot be started to begin with raises RuntimeError with its last words.
    """

    def __init__(self, starts: Mapping[str, Callable[[], Service]]):
        self.starts = starts
        self.running: dict[str, Service] = {}
        self.pause = {name: FIRST_PAUSE for name in starts}
        self.due = {name: 0.0 for name in starts}
        try:
            for name in starts:
                self.start(name)
        except BaseException:
            self.close()
            raise

    def start(self, name: str) -> None:
        self.due[name] = time.monotonic() + self.pause[name]
        self.pause[name] = min(2 * self.pause[name], LONGEST_PAUSE)
        self.running[name] = self.starts[name]()

    def look(self) -> None:
        """Start again what has ended; what has lasted starts fresh the next time."""
        now = time.monotonic()
        for name, service in list(self.running.items()):
            service.rotate_log()
            if service.alive:
                if now > self.due[name] + LONGEST_PAUSE:
                    self.pause[name] = FIRST_PAUSE
            elif now >= self.due[name]:
                log.warning("The %s ended and is started again; it said: %s", name, service.tail(3))
                service.kill()
                try:
                    self.start(name)
                except RuntimeError as error:
                    log.warning("%s", error)

    def close(self) -> None:
        """End them all; those that end in their own time do so together."""
        for service in self.running.values():
            service.process.terminate()
        for service in self.running.values():
            service.stop()
