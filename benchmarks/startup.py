"""How long a user waits: `proxfl --help`, and the first result of the demo."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side import seconds

PROXFL = Path(sys.executable).parent / "proxfl"


def run(repeats: int = 7) -> dict[str, Any]:
    helped = [
        seconds(lambda: subprocess.run([PROXFL, "--help"], check=True, capture_output=True))
        for _ in range(repeats)
    ]
    with tempfile.TemporaryDirectory() as folder:
        fresh = dict(os.environ, XDG_CACHE_HOME=folder)  # no programs compiled before
        first, whole = demo(Path(folder) / "first", fresh)
        again, _ = demo(Path(folder) / "again", fresh)
    return {
        "what": "seconds a user waits",
        "proxfl --help": float(np.median(helped)),
        "first result of the demo": first,
        "first result, with programs compiled before": again,
        "all of the demo": whole,
    }


def demo(out: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds to the first line with a result, and to the end."""
    begun, first = time.perf_counter(), np.inf
    command = [PROXFL, "demo", "--out", out]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            if "optimality" in line:
                first = min(first, time.perf_counter() - begun)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}.")
    return first, time.perf_counter() - begun
