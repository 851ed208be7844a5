"""Networks and machines as they are: nothing is lost, the run goes on when it can, or says why not.

Server and sites are in network namespaces, with packets between them late, lost, or gone one way;
a machine sleeps, the kernel ends a process for its memory. Hours long: `make soak`.
"""

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.deploy.field import NAMES, Field
from tests.deploy.processes import Deployment, commands, kill, processes, until
from tests.deploy.wire import lacking, wired
from tests.outcomes import soak

PROBLEM = {"target": "y", "loss": "logistic", "l1": 0.02, "algorithm": "decoupled", "rounds": 6}
MEMORY = Path("/sys/fs/cgroup/memory")
LITTLE = 160 * 2**20  # bytes: a site takes more before it says a word
ASLEEP = 150  # seconds: longer than Flower takes a silent site to be there, and than any connection
HOUR = 3600
SEVERED = 75  # seconds: longer than a site, and the server, wait for an answer
PATIENT = 900


class Remote(Deployment):
    """Each in a network namespace of its own, with a wire between them."""

    def __init__(self, folder, start, files, wire):
        self.wire = wire
        super().__init__(folder, start, files, host=wire.addresses["server"], **PROBLEM)

    @property
    def address(self):
        return f"{self.wire.addresses['server']}:{self.port}"

    def serve(self):
        where = ("--host", self.wire.addresses["server"], "--port", self.port)
        self.server = self.at_server("serve", self.home.folder, *where)
        self.server.wait_for("Stop it with Ctrl-C")

    def at_server(self, *words):
        return self.start(*words, inside=self.wire.inside("server"))

    def enter(self, name, before=()):
        joined = self.join(name, inside=(*before, *self.wire.inside(name)))
        self.let_in(name)
        self.server.wait_for(f"Site {name} is let in.", PATIENT)
        return joined

    def past(self, r, run):
        until(lambda: self.rounds() >= r or run.process.poll() is not None, PATIENT)
        assert run.process.poll() is None, run.said


def far(there, joined, run):
    """300 ms there and back, and one packet of twenty lost."""
    return run


def half_open(there, joined, run):
    """The server's packets do not reach a site, whose own still do; then the other way round."""
    for way in (("server", "south"), ("south", "server")):
        before = there.rounds()
        there.wire.cut = {way}
        time.sleep(SEVERED)
        assert there.rounds() <= before + 1, "it went on without a site that it needs"
        there.wire.cut = set()
        there.past(before + 1, run)
    return run


def severed(there, joined, run):
    """For longer than the run waits: it says whom it lacks, and goes on once that is mended."""
    there.wire.cut = {("south", "server"), ("server", "south")}
    gives_up_on_south(run)
    there.wire.cut = set()
    return resumed(there)


def gives_up_on_south(run):
    assert run.ended(PATIENT) == 3, run.said
    assert "Only 2 sites answered within" in run.said and "Missing: south" in run.said
    assert "Nothing is lost: mend that and resume." in run.said and "Traceback" not in run.said


def resumed(there):
    return there.at_server("resume", there.home.folder, "--deadline", 600)


@contextlib.contextmanager
def sleeping(there, joined, seconds):
    """All processes of a site stop for a while, as when its machine sleeps."""
    own = [joined["south"].process.pid, *processes(there.folder / "at-south")]
    begun = time.monotonic()
    for pid in own:
        os.kill(pid, signal.SIGSTOP)
    yield
    time.sleep(begun + seconds - time.monotonic())
    for pid in own:
        os.kill(pid, signal.SIGCONT)


def asleep(there, joined, run):
    with sleeping(there, joined, ASLEEP):
        return run


def asleep_for_long(there, joined, run):
    """The run waits for as long as it was told to, and goes on by itself."""
    with sleeping(there, joined, HOUR):
        return run


def asleep_and_given_up(there, joined, run):
    """The run ends long before the site is there again, and the same site goes on with the next."""
    with sleeping(there, joined, HOUR):
        gives_up_on_south(run)
    return resumed(there)


def limited(group, size):
    """Whether the kernel takes a limit, which it does not while there is more in use."""
    try:
        (group / "memory.limit_in_bytes").write_text(str(size))
    except OSError:
        return False
    return True


def killed_for_memory(there, joined, run):
    """A site dies, and the kernel ends what is started anew until there is memory again.

    It may end the command that watches over the site, too; then that is started again, by hand.
    """
    kills = lambda: int((there.group / "memory.oom_control").read_text().split("oom_kill ")[1])
    kill(there.folder / "at-south", "site")
    until(lambda: limited(there.group, LITTLE), PATIENT)
    until(lambda: kills() > 1, PATIENT)
    (there.group / "memory.limit_in_bytes").write_text("-1")
    if joined["south"].process.poll() is not None:
        joined["south"] = there.join("south", inside=there.wire.inside("south"))
    return run


TROUBLE = {
    "300 ms of delay and 5 % loss": far,
    "half-open, either way": half_open,
    "severed for longer than a run waits": severed,
    f"asleep for {ASLEEP} s": asleep,
    "killed for its memory": killed_for_memory,
    "asleep for an hour, and awaited": asleep_for_long,
    "asleep for an hour, and given up on": asleep_and_given_up,
}
# Seconds that the run waits for a site; else 600, as is usual.
DEADLINES = {severed: 45, asleep_for_long: 2 * HOUR, asleep_and_given_up: 45}


@contextlib.contextmanager
def group_of(name):
    """A group of processes whose memory has a limit; they end before it does."""
    group = MEMORY / name
    group.mkdir()
    try:
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def gone_through(folder, number):
    """A run with one kind of trouble, and the seconds it took; its model must be the usual one."""
    name, trouble = list(TROUBLE.items())[number]
    field, begun = Field(folder / "twin", **PROBLEM), time.monotonic()
    with contextlib.ExitStack() as ended:
        wire = ended.enter_context(wired(("server", *NAMES), number))
        wire.delay, wire.loss = (0.15, 0.05) if trouble is far else (0.005, 0.0)
        group, before = None, {}
        if trouble is killed_for_memory:
            group = ended.enter_context(group_of(wire.names["south"]))
            into = f'echo $$ > {group}/cgroup.procs; exec "$@"'
            before = {"south": ("sh", "-c", into, "sh")}
        start = ended.enter_context(commands(folder))
        there = Remote(folder, start, field.files, wire)
        there.group = group
        there.serve()
        joined = {name: there.enter(name, before.get(name, ())) for name in NAMES}
        wait = DEADLINES.get(trouble, 600)
        run = there.at_server("run", there.home.folder, "--deadline", wait)
        there.past(2, run)
        run = trouble(there, joined, run)
        assert run.ended(PATIENT) == 3 and "Not converged after 6 rounds" in run.said, run.said
        for site in joined.values():
            assert "Traceback" not in site.said
        carried, lost = wire.carried, wire.lost
    field.run("straight")
    wanted = (folder / "twin" / "straight" / "model.json").read_bytes()
    assert (there.home.folder / "results" / "model.json").read_bytes() == wanted
    took = round(time.monotonic() - begun)
    return Counter(
        {
            f"the same model: {name}": 1,
            f"longest, seconds: {name}": took,
            "packets carried": carried,
            "packets lost": lost,
        }
    )


@pytest.mark.soak
@pytest.mark.skipif(lacking() != "", reason=f"no networks can be made here: {lacking()}")
@pytest.mark.filterwarnings("ignore:Not converged")
def test_on_networks_as_they_are_the_model_is_that_of_an_undisturbed_run(tmp_path):
    run = lambda seeds: gone_through(tmp_path / str(seeds[0]), seeds[0])
    soak("networks", range(len(TROUBLE)), 1, run)
