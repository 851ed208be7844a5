"""Commands in processes of their own, the services they start, and a whole deployment of them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import tomli_w

from proxfl.deploy.ops.home import Home, read_json
from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.ops.services import marked
from proxfl.deploy.transport.flower.launch import free_port
from proxfl.storage.files import write_text
from tests.cli.world import proxfl
from tests.deploy.field import LOOSE, NAMES

PROGRAM = "import sys; from proxfl.cli.main import program; sys.exit(program())"
DEAF = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")  # as what a shell starts with `&`
LONG = 240  # seconds: for a machine that many share
STOPPING = 110  # seconds to stop in: once, a fault of ours took more than 120, on such a machine


class Command:
    """A `proxfl federate` command, with what it prints in a file; `inside` goes before it."""

    def __init__(self, folder, *args, deaf=False, inside=()):
        self.log = folder / f"{args[0]}-{time.monotonic_ns()}.txt"
        command = [sys.executable, "-c", PROGRAM, "federate", *map(str, args)]
        kept = {"JAX_COMPILATION_CACHE_DIR": str(folder / "programs")}  # of all processes
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*inside, *(DEAF if deaf else ()), *command],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | kept,
            )

    @property
    def said(self):
        return self.log.read_text()

    def wait_for(self, words, seconds=LONG):
        until(lambda: words in self.said or self.process.poll() is not None, seconds)
        assert words in self.said, self.said

    def says_again(self, words, once, seconds=LONG):
        """Once something is done, it says what it may have said before."""
        before = self.said.count(words)
        once()
        until(lambda: self.said.count(words) > before, seconds)

    def ended(self, seconds=LONG):
        return self.process.wait(seconds)

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.ended(STOPPING)


@contextlib.contextmanager
def commands(folder):
    """Starts commands, and ends at the end those that still run."""
    started = []

    def start(*args, **options):
        started.append(Command(folder, *args, **options))
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
    mine = lambda mark: mark.startswith(service) and str(folder) in mark
    return [pid for pid, mark in marked().items() if mine(mark)]


def kill(folder, service):
    """As when the power goes; how many there were."""
    killed = processes(folder, service)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert killed
    return len(killed)


def until(holds, seconds=LONG):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Deployment:
    """A server and three sites as one types them, over the files of a field."""

    def __init__(self, folder, start, files, masked=False, **problem):
        self.folder, self.start, self.files = folder, start, files
        self.home, self.port = Home(folder / "server"), free_port()
        options = [part for key, value in problem.items() for part in (f"--{key}", value)]
        sites = ("--name", "field", "--sites", *NAMES)
        clear = () if masked else ("--unmasked",)
        made = proxfl("federate", "init", self.home.folder, *sites, *options, *clear)
        assert made.code == 0, made.err

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def serve(self, **options):
        where = ("--host", "127.0.0.1", "--port", self.port)
        self.server = self.start("serve", self.home.folder, *where, **options)
        return self.server

    def join(self, name, file=None, **options):
        """As the operator of a site does, with copies of what the server gave."""
        at, file = self.folder / f"at-{name}", file or self.files[NAMES.index(name)]
        at.mkdir(exist_ok=True)
        for public in ("federation.toml", "ca.pem"):
            shutil.copy(self.home.folder / public, at)
        loose = tomli_w.dumps(LOOSE.to_dict())
        write_text(private_folder(Home(at).site(name)) / "policy.toml", loose)
        return self.start("join", at, "--data", file, "--server", self.address, **options)

    def site(self, name):
        return Home(self.folder / f"at-{name}").site(name)

    def let_in(self, name):
        key = self.site(name) / "keys" / f"{name}.pub"
        until(key.exists)
        write_text(self.home.public_keys / key.name, key.read_text())

    def rounds(self):
        status = self.home.status
        return read_json(status, "").get("round", 0) if status.exists() else 0
