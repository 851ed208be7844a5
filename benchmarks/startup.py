"""How long a user waits: `proxfl --help`, the first result of the demo, training on 149 rows.

Training is counted in processor seconds too, which a busy machine changes less.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import proxfl
from benchmarks.side import seconds

PROXFL = Path(sys.executable).parent / "proxfl"


def run(repeats: int = 7) -> dict[str, Any]:
    helped = [
        seconds(lambda: subprocess.run([PROXFL, "--help"], check=True, capture_output=True))
        for _ in range(repeats)
    ]
    with tempfile.TemporaryDirectory() as folder:
        # Modules are compiled where the package is installed; here, if an environment forbids it.
        compiled = [sys.executable, "-m", "compileall", "-q", Path(proxfl.__file__).parent]
        subprocess.run(compiled, check=True)
        fresh = dict(os.environ, XDG_CACHE_HOME=folder)  # no programs compiled before
        first, again = (demo(Path(folder) / name, fresh) for name in ("first", "again"))
        fresh = dict(os.environ, XDG_CACHE_HOME=str(Path(folder) / "other"))
        trained = [train(Path(folder), fresh) for _ in range(repeats)]
    return {
        "what": "seconds a user waits",
        "proxfl --help": float(np.median(helped)),
        "first result of the demo": first,
        "first result, with programs compiled before": again,
        "proxfl train, first": trained[0],
        "proxfl train, with programs compiled before": {
            clock: float(np.median([run[clock] for run in trained[1:]])) for clock in trained[0]
        },
        "load": os.getloadavg()[0],
    }


def train(folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """Seconds of `proxfl train` on two sites with 149 rows together, by both clocks."""
    rng, before = np.random.default_rng(0), used()
    rows = rng.normal(size=(149, 8))
    table = np.column_stack([rows, rows[:, 0] + rng.normal(size=149) > 0])
    for name, part in (("north", table[:80]), ("south", table[80:])):
        head = ",".join([*"abcdefgh", "ill"])
        np.savetxt(
            folder / f"{name}.csv", part, delimiter=",", header=head, comments="", fmt="%.6g"
        )
    sites = [folder / "north.csv", folder / "south.csv"]
    out = folder / f"trained-{time.time_ns()}"
    command = [PROXFL, "train", *sites, "--target", "ill", "--loss", "logistic", "--l1", "0.01"]
    done = lambda: subprocess.run(
        [*command, "--out", out], check=True, capture_output=True, env=environment
    )
    return {"seconds": seconds(done), "of a processor": used() - before}


def used() -> float:
    """Processor seconds of all commands that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def demo(out: Path, environment: dict[str, str]) -> float:
    """Seconds to the first line with a result; the rest of the demo is left out."""
    command, begun = [PROXFL, "demo", "--out", out], time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            if "optimality" in line:
                process.terminate()
                return time.perf_counter() - begun
    raise RuntimeError(f"{command} ended with {process.returncode} and without a result.")
