"""What the processes of a federation take while nothing goes on, as one types the commands."""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from tests.deploy.field import NAMES, write_data
from tests.deploy.processes import Deployment, commands, marked

SETTLE, SECONDS = 25.0, 60.0


def kind(process: psutil.Process, folder: str, roots: dict[int, str]) -> str:
    mark = marked_as(process)
    if process.pid in roots:
        return f"proxfl federate {roots[process.pid]}"
    return f"{mark.split('@')[0]}: {process.name()}" if folder in mark else process.name()


def marked_as(process: psutil.Process) -> str:
    return marked().get(process.pid, "")


def spent(processes: Iterable[psutil.Process]) -> dict[int, float]:
    return {one.pid: sum(one.cpu_times()[:2]) for one in processes}


def measure() -> dict[str, Any]:
    """Per cent of one core, by kind of process and together, over a minute."""
    with tempfile.TemporaryDirectory(prefix="proxfl-idle-") as made, commands(Path(made)) as start:
        folder = Path(made)
        files = write_data(folder / "data")
        there = Deployment(folder, start, files, target="y", loss="logistic")
        roots = {there.serve().process.pid: "serve"}
        there.server.wait_for("Stop it with Ctrl-C")
        for name in NAMES:
            joined = there.join(name)
            roots[joined.process.pid] = "join"
            there.let_in(name)
            joined.wait_for("It is connected to the server.")
        time.sleep(SETTLE)
        tops = [psutil.Process(pid) for pid in roots]
        all_of_it = tops + [one for top in tops for one in top.children(recursive=True)]
        kinds = {one.pid: kind(one, made, roots) for one in all_of_it}
        before, load = spent(all_of_it), os.getloadavg()[0]
        begun = time.monotonic()
        time.sleep(SECONDS)
        long, after, shares = time.monotonic() - begun, spent(all_of_it), Counter()
        for pid, name in kinds.items():
            shares[name] += 100 * (after[pid] - before[pid]) / long
    return {
        "processes": len(all_of_it),
        "seconds": SECONDS,
        "per cent of a core": sum(shares.values()),
        "load": load,
        **dict(shares.most_common()),
    }
